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
        votes += !peer->is_lost && peer->knowledge != UNKNOWN && same_digest(&peer->digest, digest);
    }
    return votes;
}

/* The digest of more than half of the replicas that count; null if there is none, or not yet. Each counts once, by
 * itself or by its sender's claim: so two of these that differ need a replica that says two things. */
static const struct digest *majority(const struct agreement *agreement)
{
    int voters = 0;
    for (int i = 0; i < agreement->replicas; i++)
        voters += !agreement->peers[i].is_lost;
    for (int i = 0; i < agreement->replicas; i++) {
        const struct peer *peer = &agreement->peers[i];
        if (!peer->is_lost && peer->knowledge != UNKNOWN && 2 * votes_for(agreement, &peer->digest) > voters)
            return &peer->digest;
    }
    return NULL;
}

static bool is_right(const struct agreement *agreement, int replica, const struct digest *right)
{
    const struct peer *peer = &agreement->peers[replica];
    return !peer->is_lost && peer->knowledge != UNKNOWN && same_digest(&peer->digest, right);
}

static bool all_are_at_least(const struct agreement *agreement, enum knowledge knowledge)
{
    for (int i = 0; i < agreement->replicas; i++) {
        if (!agreement->peers[i].is_lost && agreement->peers[i].knowledge < knowledge)
            return false;
    }
    return true;
}

uint32_t agreement_wrong(const struct agreement *agreement)
{
    const struct digest *right = majority(agreement);
    uint32_t wrong = 0;
    for (int i = 0; right && i < agreement->replicas; i++) {
        if (agreement->peers[i].knowledge != UNKNOWN && !is_right(agreement, i, right))
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

/* Whether a peer that has asked with another digest gets the message at once: it may need it. */
static bool is_offered(const struct agreement *agreement, const struct peer *peer)
{
    const struct digest *own = &agreement->peers[agreement->own].digest;
    return peer->asks == agreement->number && agreement->is_here && !agreement->is_replaced &&
           own->bytes <= MOST_OFFERED && !same_digest(&peer->asks_with, own) &&
           (!majority(agreement) || has_right_message(agreement));
}

static void answer_question(struct agreement *agreement, int to)
{
    struct peer *peer = &agreement->peers[to];
    uint64_t now = agreement->number, number = peer->asks;
    const struct digest *digest = digest_of(agreement, number);
    bool is_done = number < now || agreement->state != AGREEMENT_WAITS, is_sent = is_offered(agreement, peer);
    peer->knows_own |= number == now;
    peer->asks = 0;
    if (now - number >= agreement->memory) {
        say(agreement, to, NOTICE_FORGOTTEN, number, NULL);
        return;
    }
    if (is_sent)
        say(agreement, to, NOTICE_MESSAGE, number, NULL);
    if (is_done || !is_sent)
        say(agreement, to, is_done ? NOTICE_DONE_DIGEST : NOTICE_DIGEST, number, digest);
}

/* Answers what a peer waits for, as far as that is known. */
static void answer(struct agreement *agreement, int to)
{
    struct peer *peer = &agreement->peers[to];
    uint64_t now = agreement->number;
    if (peer->asks && peer->asks <= now)
        answer_question(agreement, to);
    if (!peer->fetches || peer->fetches > now)
        return;
    bool is_open = agreement->state == AGREEMENT_WAITS && !majority(agreement);
    if (peer->fetches == now && is_open)
        return;
    bool is_held = peer->fetches == now && has_right_message(agreement);
    say(agreement, to, is_held ? NOTICE_MESSAGE : NOTICE_NOT_HELD, peer->fetches, NULL);
    peer->fetches = 0;
}

/* Those wait for this replica that know that it had received something wrong. Who asks later learns it then. */
static void settle(struct agreement *agreement, enum agreement_state state)
{
    const struct digest *right = majority(agreement);
    bool was_right = right && is_right(agreement, agreement->own, right);
    agreement->state = state;
    for (int i = 0; i < agreement->replicas; i++) {
        const struct peer *peer = &agreement->peers[i];
        bool waits = state == AGREEMENT_STOPPED || (!was_right && peer->knows_own);
        if (i != agreement->own && !peer->is_lost && waits && peer->settled < agreement->number)
            say(agreement, i, NOTICE_SETTLED, agreement->number, NULL);
    }
}

/* Asks the replicas of which no more than this is known, each once. */
static void ask(struct agreement *agreement, enum knowledge known)
{
    for (int i = 0; i < agreement->replicas; i++) {
        struct peer *peer = &agreement->peers[i];
        if (peer->is_lost || peer->is_asked || peer->knowledge > known)
            continue;
        peer->is_asked = peer->knows_own = true;
        say(agreement, i, NOTICE_ASK, agreement->number, &agreement->peers[agreement->own].digest);
    }
}

/* The next replica that may have the right message; -1 if there is none. */
static int holder(const struct agreement *agreement, const struct digest *right)
{
    for (enum knowledge knowledge = KNOWN; knowledge >= CLAIMED; knowledge--) {
        for (int i = 0; i < agreement->replicas; i++) {
            const struct peer *peer = &agreement->peers[i];
            if (peer->knowledge == knowledge && is_right(agreement, i, right) && !peer->has_none)
                return i;
        }
    }
    return -1;
}

static void fetch(struct agreement *agreement, const struct digest *right)
{
    if (agreement->fetching >= 0)
        return;
    agreement->fetching = holder(agreement, right);
    if (agreement->fetching >= 0)
        say(agreement, agreement->fetching, NOTICE_FETCH, agreement->number, NULL);
    else if (all_are_at_least(agreement, KNOWN))
        settle(agreement, AGREEMENT_STOPPED);
    else
        ask(agreement, CLAIMED);
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

/* There is no majority among those that are known. */
static void look_for_majority(struct agreement *agreement)
{
    if (all_are_at_least(agreement, KNOWN))
        settle(agreement, AGREEMENT_STOPPED);
    else if (all_are_at_least(agreement, CLAIMED))
        ask(agreement, CLAIMED);
}

/* Draws what follows from what is known. */
static void conclude(struct agreement *agreement)
{
    for (int i = 0; i < agreement->replicas; i++)
        answer(agreement, i);
    if (agreement->state != AGREEMENT_WAITS)
        return;
    const struct digest *right = majority(agreement);
    if (!right)
        look_for_majority(agreement);
    else if (!has_right_message(agreement))
        fetch(agreement, right);
    else if (agreement->is_replaced || nobody_waits(agreement, right))
        settle(agreement, AGREEMENT_ACCEPTED);
    else
        ask(agreement, CLAIMED);
}

static void begin_vote(struct agreement *agreement)
{
    agreement->state = AGREEMENT_WAITS;
    agreement->is_voting = true;
    ask(agreement, UNKNOWN);
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
        if (!peer->is_lost && peer->knowledge == KNOWN && !same_digest(&peer->digest, mine))
            return true;
    }
    return false;
}

static void learn(struct peer *peer, enum knowledge knowledge, const struct digest *digest)
{
    peer->knowledge = knowledge;
    peer->digest = *digest;
}

void agreement_compare(struct agreement *agreement, const struct digest *mine, const struct digest *others,
                       const int of[], int count)
{
    assert(agreement->state == AGREEMENT_ACCEPTED && !agreement->is_here);
    agreement->number++;
    *digest_of(agreement, agreement->number) = *mine;
    agreement->is_voting = agreement->is_replaced = false;
    agreement->is_here = true;
    agreement->fetching = -1;
    for (int i = 0; i < agreement->replicas; i++) {
        struct peer *peer = &agreement->peers[i];
        peer->knowledge = UNKNOWN;
        peer->is_asked = peer->has_none = peer->knows_own = false;
    }
    bool is_in_doubt = agreement_lacks(agreement, count);
    for (int i = 0; i < count; i++) {
        learn(&agreement->peers[of[i]], CLAIMED, &others[i]);
        is_in_doubt |= !same_digest(&others[i], mine);
    }
    learn(&agreement->peers[agreement->own], KNOWN, mine);
    for (int i = 0; i < agreement->replicas; i++) {
        struct peer *peer = &agreement->peers[i];
        if (peer->asks == agreement->number)
            learn(peer, KNOWN, &peer->asks_with);
    }
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

/* A message has come that was fetched, or offered: the digest is its own. Only a replica that has another one gets it.
 */
static void hear_message(struct agreement *agreement, int from, const struct notice *notice)
{
    struct peer *peer = &agreement->peers[from];
    bool is_fetched = agreement->fetching == from;
    if (notice->kind == NOTICE_MESSAGE && peer->knowledge != KNOWN)
        learn(peer, KNOWN, &notice->digest);
    const struct digest *right = majority(agreement);
    bool is_of_use = notice->kind == NOTICE_MESSAGE && right && same_digest(&notice->digest, right);
    if (is_fetched) {
        agreement->fetching = -1;
        peer->has_none = !is_of_use;
    }
    if (agreement->state == AGREEMENT_WAITS && is_of_use)
        agreement->is_replaced = true;
}

void agreement_hear(struct agreement *agreement, int from, const struct notice *notice)
{
    struct peer *peer = &agreement->peers[from];
    bool is_of_vote = agreement->is_voting && notice->number == agreement->number;
    bool is_news = is_of_vote && peer->knowledge != KNOWN;
    switch (notice->kind) {
    case NOTICE_ASK:
        peer->asks = notice->number;
        peer->asks_with = notice->digest;
        if (is_news)
            learn(peer, KNOWN, &notice->digest);
        break;
    case NOTICE_FETCH:
        peer->fetches = notice->number;
        break;
    case NOTICE_SETTLED:
    case NOTICE_DONE_DIGEST:
        if (peer->settled < notice->number)
            peer->settled = notice->number;
        if (is_news && notice->kind == NOTICE_DONE_DIGEST)
            learn(peer, KNOWN, &notice->digest);
        break;
    case NOTICE_DIGEST:
        if (is_news)
            learn(peer, KNOWN, &notice->digest);
        break;
    case NOTICE_FORGOTTEN:
        if (is_of_vote)
            agreement_lose(agreement, from);
        break;
    case NOTICE_MESSAGE:
    case NOTICE_NOT_HELD:
        if (is_of_vote)
            hear_message(agreement, from, notice);
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
