/* See comparison.h. */
#include "comparison.h"

#include <string.h>

void comparison_begin(struct comparison *comparison, int replicas, struct mark *marks, uint64_t places)
{
    *comparison = (struct comparison){ .replicas = replicas, .places = places, .marks = marks };
}

static struct mark *mark_of(const struct comparison *comparison, int replica, uint64_t number)
{
    return &comparison->marks[(uint64_t)replica * comparison->places + number % comparison->places];
}

bool comparison_take(struct comparison *comparison, int replica, const struct mark *marks, uint64_t count)
{
    uint64_t *came = &comparison->came[replica];
    if (count > comparison->places - (*came - comparison->compared))
        return false;
    for (uint64_t i = 0; i < count; i++)
        *mark_of(comparison, replica, ++*came) = marks[i];
    return true;
}

void comparison_lose(struct comparison *comparison, int replica)
{
    comparison->is_lost[replica] = true;
}

/* So many numbers have come of all. */
static uint64_t common(const struct comparison *comparison)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < comparison->replicas; i++) {
        if (!comparison->is_lost[i] && comparison->came[i] < least)
            least = comparison->came[i];
    }
    return least == UINT64_MAX ? comparison->compared : least;
}

static bool same_mark(const struct mark *one, const struct mark *other)
{
    return one->path == other->path && one->content == other->content;
}

/* A mask of the replicas that have another mark than this one. */
static uint32_t others_than(const struct comparison *comparison, const struct mark *mark, uint64_t number)
{
    uint32_t others = 0;
    for (int i = 0; i < comparison->replicas; i++) {
        if (!comparison->is_lost[i] && !same_mark(mark_of(comparison, i, number), mark))
            others |= UINT32_C(1) << i;
    }
    return others;
}

/* Who is wrong where not all are alike; 0 if no majority is. */
static uint32_t minority(const struct comparison *comparison, uint64_t number)
{
    int voters = 0;
    for (int i = 0; i < comparison->replicas; i++)
        voters += !comparison->is_lost[i];
    for (int i = 0; i < comparison->replicas; i++) {
        uint32_t others = others_than(comparison, mark_of(comparison, i, number), number);
        if (!comparison->is_lost[i] && 2 * __builtin_popcount(others) < voters)
            return others;
    }
    return 0;
}

static bool have_parted(const struct comparison *comparison, int first, uint64_t number)
{
    for (int i = 0; i < comparison->replicas; i++) {
        if (!comparison->is_lost[i] &&
            mark_of(comparison, i, number)->path != mark_of(comparison, first, number)->path)
            return true;
    }
    return false;
}

enum comparison_result comparison_go_on(struct comparison *comparison, uint32_t *wrong)
{
    uint64_t end = common(comparison);
    int first = 0;
    while (first < comparison->replicas - 1 && comparison->is_lost[first])
        first++;
    while (!comparison->is_over && comparison->compared < end) {
        uint64_t number = ++comparison->compared;
        if (!others_than(comparison, mark_of(comparison, first, number), number))
            continue;
        *wrong = minority(comparison, number);
        comparison->is_over = have_parted(comparison, first, number);
        return comparison->is_over ? COMPARISON_PARTED : COMPARISON_DIFFERS;
    }
    return COMPARISON_WAITS;
}
