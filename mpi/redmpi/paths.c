/* See paths.h. */
#include "paths.h"

#include <string.h>

void paths_begin(struct paths *paths, int replicas, int own)
{
    memset(paths, 0, sizeof *paths);
    paths->replicas = replicas;
    paths->own = own;
}

static uint32_t bit(int replica)
{
    return UINT32_C(1) << replica;
}

static uint32_t live(const struct paths *paths)
{
    return ((UINT32_C(1) << paths->replicas) - 1) & ~paths->out;
}

/* What does not fit is said again at the next report. */
static void say(struct paths *paths, int to, enum notice_kind kind, const struct point *point)
{
    if (paths->count == sizeof paths->messages / sizeof *paths->messages)
        return;
    struct path_outgoing *message = &paths->messages[paths->count++];
    *message = (struct path_outgoing){ .to = to, .notice = { .kind = kind, .number = point->steps } };
    message->notice.digest.low = point->hash;
    message->notice.digest.high = point->decisions;
}

static void say_to_all(struct paths *paths, enum notice_kind kind, const struct point *point)
{
    for (int i = 0; i < paths->replicas; i++) {
        if (i != paths->own && live(paths) & bit(i))
            say(paths, i, kind, point);
    }
}

bool paths_say(struct paths *paths, int *to, struct notice *notice)
{
    if (!paths->count)
        return false;
    *to = paths->messages[0].to;
    *notice = paths->messages[0].notice;
    memmove(paths->messages, paths->messages + 1, sizeof *paths->messages * (size_t)--paths->count);
    return true;
}

static void end_vote(struct paths *paths)
{
    paths->step = 0;
    paths->voted = 0;
}

/* Counts the votes: who has another hash than a majority is out. */
static uint32_t count_votes(struct paths *paths)
{
    uint32_t all = live(paths), voters = paths->voted & all;
    for (uint32_t left = voters; paths->step && left; left &= left - 1) {
        uint64_t hash = paths->hashes[__builtin_ctz(left)];
        uint32_t alike = 0;
        for (uint32_t others = voters; others; others &= others - 1)
            alike |= paths->hashes[__builtin_ctz(others)] == hash ? others & -others : 0;
        if (2 * __builtin_popcount(alike) <= __builtin_popcount(all))
            continue;
        uint32_t wrong = voters & ~alike;
        paths->out |= wrong;
        if (wrong || voters == all)
            end_vote(paths);
        return wrong;
    }
    /* One that is out sees nothing but others that differ from it. */
    paths->is_stopped |= paths->step && voters == all && all & bit(paths->own);
    return 0;
}

/* This replica's vote, if it has one. */
static void vote(struct paths *paths, uint64_t hash, uint64_t decisions)
{
    if (paths->voted & bit(paths->own))
        return;
    paths->voted |= bit(paths->own);
    paths->hashes[paths->own] = hash;
    paths->own_vote = (struct point){ .steps = paths->step, .hash = hash, .decisions = decisions };
    say_to_all(paths, NOTICE_VOTE, &paths->own_vote);
}

/* Who had another vote then has not answered: it is asked once more. */
static void call_again(struct paths *paths)
{
    if (!paths->step || !(paths->voted & bit(paths->own)))
        return;
    for (int i = 0; i < paths->replicas; i++) {
        if (live(paths) & ~paths->voted & bit(i))
            say(paths, i, NOTICE_VOTE, &paths->own_vote);
    }
}

void paths_report(struct paths *paths, const struct course *course)
{
    say_to_all(paths, NOTICE_PATH, &course->now);
    call_again(paths);
}

/* The earliest step on which a vote was called is the one that most can vote on. */
static bool begin_vote(struct paths *paths, uint64_t step)
{
    if (paths->step && paths->step <= step)
        return paths->step == step;
    end_vote(paths);
    paths->step = step;
    return true;
}

static bool expects_decision_at(const struct course *course, uint64_t step)
{
    return course->waits_for >= 0 && course->now.steps + 1 == step;
}

uint32_t paths_go_on(struct paths *paths, const struct course *course)
{
    struct point own;
    if (!paths->step || paths->voted & bit(paths->own))
        return 0;
    if (course->at(paths->step, &own))
        vote(paths, own.hash, own.decisions);
    else if (expects_decision_at(course, paths->step))
        say(paths, course->waits_for, NOTICE_ASK_PATH, &(struct point){ .steps = paths->step });
    return count_votes(paths);
}

/* Another replica was at this point; `is_vote` is whether it has voted so. */
static uint32_t see(struct paths *paths, int from, const struct point *other, bool is_vote,
                    const struct course *course)
{
    struct point own;
    uint64_t hash = 0, decisions = 0;
    /* Who has done nothing yet has left no path; and no vote is one on step 0. */
    if (!other->steps)
        return 0;
    bool is_known = course->at(other->steps, &own), differs = false;
    if (is_known) {
        hash = own.hash;
        decisions = own.decisions;
    } else if (from == course->waits_for && expects_decision_at(course, other->steps) &&
               other->decisions <= course->decisions) {
        is_known = true;
        hash = course->hash_after;
        decisions = course->decisions;
    }
    differs = is_known && hash != other->hash;
    bool is_asked_for = paths->step == other->steps || (is_vote && !is_known);
    if (!differs && !is_asked_for)
        return 0;
    if (!begin_vote(paths, other->steps))
        return 0;
    /* What it has said of its path is its vote. */
    paths->voted |= bit(from);
    paths->hashes[from] = other->hash;
    if (is_known)
        vote(paths, hash, decisions);
    return count_votes(paths);
}

uint32_t paths_hear(struct paths *paths, int from, const struct notice *notice, const struct course *course)
{
    struct point point = { .steps = notice->number, .hash = notice->digest.low, .decisions = notice->digest.high };
    struct point own;
    if (!(live(paths) & bit(from)))
        return 0;
    switch (notice->kind) {
    case NOTICE_ASK_PATH:
        if (course->at(point.steps, &own))
            say(paths, from, NOTICE_PATH, &own);
        return 0;
    case NOTICE_PATH:
        if (point.steps > course->now.steps) {
            say(paths, from, NOTICE_PATH, &course->now);
            if (from == course->waits_for && !expects_decision_at(course, point.steps))
                say(paths, from, NOTICE_ASK_PATH, &(struct point){ .steps = course->now.steps + 1 });
        }
        return see(paths, from, &point, false, course);
    case NOTICE_VOTE:
        if (course->at(point.steps, &own) && own.hash == point.hash)
            say(paths, from, NOTICE_PATH, &own);
        return see(paths, from, &point, true, course);
    default:
        return 0;
    }
}

uint32_t paths_leave_out(struct paths *paths, uint32_t out)
{
    paths->out |= out;
    return count_votes(paths);
}
