/* See agreement.h. */
#include "agreement.h"

#include <assert.h>
#include <string.h>

bool same_digest(const struct digest *one, const struct digest *other)
{
    return one->bytes == other->bytes && one->low == other->low && one->high == other->high;
}

int compared_teams(int replicas)
{
    return replicas / 2;
}

void agreement_begin(struct agreement *agreement, int replicas, int own, struct digest *remembered, uint64_t memory)
{
    memset(agreement, 0, sizeof *agreement);
    agreement->replicas = replicas;
    agreement->own = own;
    agreement->remembered = remembered;
    agreement->memory = memory;
    agreement->state = AGREEMENT_ACCEPTED;
    agreement->fetching = -1;
}

/* A replica that asks waits for the answer, so that there are never more notices than places. */
static void say(struct agreement *agreement, int to, enum notice_kind kind, uint64_t number,
                const struct digest *digest)
{
    const int places = sizeof agreement->out / sizeof *agreement->out;
    struct outgoing *out = &agreement->out[(agreement->first_out + agreement->outs) % places];
    assert(agreement->outs < places);
    *out = (struct outgoing){ .to = to, .notice = { .kind = kind, .number = number } };
    if (digest)
        out->notice.digest = *digest;
    agreement->outs++;
}

bool agreement_say(struct agreement *agreement, int *to, struct notice *notice)
{
    const int places = sizeof agreement->out / sizeof *agreement->out;
    if (!agreement->outs)
        return false;
    const struct outgoing *out = &agreement->out[agreement->first_out];
    *to = out->to;
    *notice = out->notice;
    agreement->first_out = (agreement->first_out + 1) % places;
    agreement->outs--;
    return true;
}

static struct digest *digest_of(const struct agreement *agreement, uint64_t number)
{
    return &agreement->remembered[number % agreement->memory];
}

static int votes_for(const struct agreement *agreement, const struct digest *digest)
{
    int votes = 0;
    for (int i = 0; i < agreement->replicas; i++) {
        const struct peer *peer = &agreement->peers[i];
        votes += !peer->is_lost && peer->is_known && same_digest(&peer->digest, digest);
    }
    return votes;
}

/* The digest of more than half of the replicas that count; null if there is none, or not yet. */
static const struct digest *majority(const struct agreement *agreement)
{
    int voters = 0;
    for (int i = 0; i < agreement->replicas; i++)
        voters += !agreement->peers[i].is_lost;
    for (int i = 0; i < agreement->replicas; i++) {
        const struct peer *peer = &agreement->peers[i];
        if (!peer->is_lost && peer->is_known && 2 * votes_for(agreement, &peer->digest) > voters)
            return &peer->digest;
    }
    return NULL;
}

static bool is_right(const struct agreement *agreement, int replica, const struct digest *right)
{
    const struct peer *peer = &agreement->peers[replica];
    return !peer->is_lost && peer->is_known && same_digest(&peer->digest, right);
}

uint32_t agreement_wrong(const struct agreement *agreement)
{
    const struct digest *right = majority(agreement);
    uint32_t wrong = 0;
    for (int i = 0; right && i < agreement->replicas; i++) {
        if (agreement->peers[i].is_known && !is_right(agreement, i, right))
            wrong |= UINT32_C(1) << i;
    }
    return wrong;
}

/* Whether the own message is known to be right, while it is still here. */
static bool has_right_message(const struct agreement *agreement)
{
    if (!agreement->is_here)
        return false;
    if (!agreement->is_voting)
        return true;
    const struct digest *right = majority(agreement);
    return right && (agreement->is_replaced || is_right(agreement, agreement->own, right));
}

/* Answers what a peer waits for, as far as that is known. */
static void answer(struct agreement *agreement, int to)
{
    struct peer *peer = &agreement->peers[to];
    uint64_t now = agreement->number;
    if (peer->asks && peer->asks <= now) {
        bool is_remembered = now - peer->asks < agreement->memory;
        say(agreement, to, is_remembered ? NOTICE_DIGEST : NOTICE_FORGOTTEN, peer->asks,
            is_remembered ? digest_of(agreement, peer->asks) : NULL);
        peer->asks = 0;
    }
    if (!peer->fetches || peer->fetches > now)
        return;
    bool is_open = agreement->state == AGREEMENT_WAITS && !majority(agreement);
    if (peer->fetches == now && is_open)
        return;
    bool is_held = peer->fetches == now && has_right_message(agreement);
    say(agreement, to, is_held ? NOTICE_MESSAGE : NOTICE_NOT_HELD, peer->fetches, NULL);
    peer->fetches = 0;
}

static void settle(struct agreement *agreement, enum agreement_state state)
{
    agreement->state = state;
    for (int i = 0; i < agreement->replicas; i++) {
        if (i != agreement->own && !agreement->peers[i].is_lost)
            say(agreement, i, NOTICE_SETTLED, agreement->number, NULL);
    }
}

/* Fetches the right message from the next replica that may have it. */
static void fetch(struct agreement *agreement, const struct digest *right)
{
    if (agreement->fetching >= 0)
        return;
    for (int i = 0; i < agreement->replicas; i++) {
        if (is_right(agreement, i, right) && !agreement->peers[i].has_none) {
            agreement->fetching = i;
            say(agreement, i, NOTICE_FETCH, agreement->number, NULL);
            return;
        }
    }
    settle(agreement, AGREEMENT_STOPPED);
}

/* Whether nobody needs the own message any more: the others have it, or are done. */
static bool nobody_waits(const struct agreement *agreement, const struct digest *right)
{
    for (int i = 0; i < agreement->replicas; i++) {
        const struct peer *peer = &agreement->peers[i];
        if (i != agreement->own && !peer->is_lost && !is_right(agreement, i, right) &&
            peer->settled < agreement->number)
            return false;
    }
    return true;
}

/* Draws what follows from what is known. */
static void conclude(struct agreement *agreement)
{
    for (int i = 0; i < agreement->replicas; i++)
        answer(agreement, i);
    if (agreement->state != AGREEMENT_WAITS)
        return;
    const struct digest *right = majority(agreement);
    bool all_known = true;
    for (int i = 0; i < agreement->replicas; i++)
        all_known &= agreement->peers[i].is_lost || agreement->peers[i].is_known;
    if (!right) {
        if (all_known)
            settle(agreement, AGREEMENT_STOPPED);
    } else if (!has_right_message(agreement)) {
        fetch(agreement, right);
    } else if (agreement->is_replaced || nobody_waits(agreement, right)) {
        settle(agreement, AGREEMENT_ACCEPTED);
    }
}

static void begin_vote(struct agreement *agreement)
{
    agreement->state = AGREEMENT_WAITS;
    agreement->is_voting = true;
    for (int i = 0; i < agreement->replicas; i++) {
        if (i != agreement->own && !agreement->peers[i].is_lost)
            say(agreement, i, NOTICE_ASK, agreement->number, NULL);
    }
}

bool agreement_lacks(const struct agreement *agreement, int count)
{
    int live = 0;
    for (int i = 0; i < agreement->replicas; i++)
        live += !agreement->peers[i].is_lost;
    return live < agreement->replicas && count < compared_teams(live);
}

bool agreement_differs(const struct agreement *agreement)
{
    const struct digest *mine = &agreement->peers[agreement->own].digest;
    for (int i = 0; i < agreement->replicas; i++) {
        const struct peer *peer = &agreement->peers[i];
        if (!peer->is_lost && peer->is_known && !same_digest(&peer->digest, mine))
            return true;
    }
    return false;
}

void agreement_compare(struct agreement *agreement, const struct digest *mine, const struct digest *others, int count)
{
    assert(agreement->state == AGREEMENT_ACCEPTED && !agreement->is_here);
    agreement->number++;
    *digest_of(agreement, agreement->number) = *mine;
    agreement->is_voting = agreement->is_replaced = false;
    agreement->is_here = true;
    agreement->fetching = -1;
    for (int i = 0; i < agreement->replicas; i++) {
        struct peer *peer = &agreement->peers[i];
        peer->is_known = i == agreement->own;
        peer->has_none = false;
    }
    agreement->peers[agreement->own].digest = *mine;
    bool is_in_doubt = agreement_lacks(agreement, count);
    for (int i = 0; i < count; i++)
        is_in_doubt |= !same_digest(&others[i], mine);
    if (is_in_doubt)
        begin_vote(agreement);
    conclude(agreement);
}

void agreement_hand_over(struct agreement *agreement)
{
    assert(agreement->state != AGREEMENT_WAITS && !agreement->outs);
    agreement->state = AGREEMENT_ACCEPTED;
    agreement->is_here = false;
}

void agreement_hear(struct agreement *agreement, int from, const struct notice *notice)
{
    struct peer *peer = &agreement->peers[from];
    bool is_of_vote = agreement->is_voting && notice->number == agreement->number;
    switch (notice->kind) {
    case NOTICE_ASK:
        peer->asks = notice->number;
        break;
    case NOTICE_FETCH:
        peer->fetches = notice->number;
        break;
    case NOTICE_SETTLED:
        peer->settled = notice->number;
        break;
    case NOTICE_DIGEST:
        if (is_of_vote && !peer->is_known) {
            peer->is_known = true;
            peer->digest = notice->digest;
        }
        break;
    case NOTICE_FORGOTTEN:
        if (is_of_vote)
            agreement_lose(agreement, from);
        break;
    case NOTICE_MESSAGE:
    case NOTICE_NOT_HELD:
        if (!is_of_vote || agreement->fetching != from)
            break;
        agreement->fetching = -1;
        agreement->is_replaced =
            notice->kind == NOTICE_MESSAGE && majority(agreement) && same_digest(&notice->digest, majority(agreement));
        peer->has_none = !agreement->is_replaced;
        break;
    default:
        break;
    }
    conclude(agreement);
}

void agreement_lose(struct agreement *agreement, int replica)
{
    agreement->peers[replica].is_lost = true;
    agreement->peers[replica].asks = agreement->peers[replica].fetches = 0;
    if (agreement->fetching == replica)
        agreement->fetching = -1;
    conclude(agreement);
}
