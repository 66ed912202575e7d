/* See comparison.h. */
#include "comparison.h"

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

/* So many numbers have come of all that live. */
static uint64_t common(const struct comparison *comparison)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < comparison->replicas; i++) {
        if (!comparison->is_lost[i] && comparison->came[i] < least)
            least = comparison->came[i];
    }
    return least == UINT64_MAX ? comparison->compared : least;
}

/* A mask of the replicas whose mark of this number is there: also of one that has died since. */
static uint32_t voters(const struct comparison *comparison, uint64_t number)
{
    uint32_t voters = 0;
    for (int i = 0; i < comparison->replicas; i++)
        voters |= (uint32_t)(comparison->came[i] >= number) << i;
    return voters;
}

/* Those among them that have another mark than this one; `paths` is whether only the paths count. */
static uint32_t others_than(const struct comparison *comparison, const struct mark *mark, uint64_t number, bool paths)
{
    uint32_t others = 0;
    for (uint32_t left = voters(comparison, number); left; left &= left - 1) {
        int replica = __builtin_ctz(left);
        const struct mark *other = mark_of(comparison, replica, number);
        if (other->path != mark->path || (!paths && other->content != mark->content))
            others |= UINT32_C(1) << replica;
    }
    return others;
}

/* Who is wrong where not all are alike; 0 if no majority is. */
static uint32_t minority(const struct comparison *comparison, uint64_t number)
{
    const uint32_t all = voters(comparison, number);
    for (uint32_t left = all; left; left &= left - 1) {
        uint32_t others = others_than(comparison, mark_of(comparison, __builtin_ctz(left), number), number, false);
        if (2 * __builtin_popcount(others) < __builtin_popcount(all))
            return others;
    }
    return 0;
}

enum comparison_result comparison_go_on(struct comparison *comparison, uint32_t *wrong)
{
    uint64_t end = common(comparison);
    while (!comparison->is_over && comparison->compared < end) {
        uint64_t number = ++comparison->compared;
        const struct mark *first = mark_of(comparison, __builtin_ctz(voters(comparison, number)), number);
        if (!others_than(comparison, first, number, false))
            continue;
        *wrong = minority(comparison, number);
        comparison->is_over = others_than(comparison, first, number, true);
        return comparison->is_over ? COMPARISON_PARTED : COMPARISON_DIFFERS;
    }
    return COMPARISON_WAITS;
}
