/* What the simulations ask of the structures of agreement.h, comparison.h, ending.h, history.h, paths.h
 * and succession.h. */
#include "agreement.h"
#include "comparison.h"
#include "ending.h"
#include "history.h"
#include "paths.h"
#include "succession.h"

#include <stddef.h>

size_t comparison_size(void)
{
    return sizeof(struct comparison);
}

uint64_t comparison_compared(const struct comparison *comparison)
{
    return comparison->compared;
}

size_t ending_size(void)
{
    return sizeof(struct ending);
}

bool ending_is_over(const struct ending *ending)
{
    return ending->is_over;
}

uint64_t ending_own_path(const struct ending *ending)
{
    return ending->own_path;
}

/* 0: nothing is to be said; 1: that this replica has come to the end; 2: that it is about to leave; 3: that the job is
 * over. */
int ending_says(struct ending *ending)
{
    enum notice_kind kind;
    if (!ending_say(ending, &kind))
        return 0;
    return kind == NOTICE_AT_END ? 1 : kind == NOTICE_LEAVES ? 2 : 3;
}

size_t succession_size(void)
{
    return sizeof(struct succession);
}

size_t agreement_size(void)
{
    return sizeof(struct agreement);
}

int agreement_state_of(const struct agreement *agreement)
{
    return (int)agreement->state;
}

int agreement_is_replaced(const struct agreement *agreement)
{
    return agreement->is_replaced;
}

/* Whether it waits for a decision; if so, how many it has had, and what its hash is after the next. */
bool history_waits(uint64_t *decisions, uint64_t *hash_after)
{
    struct course course;
    find_course(&course);
    *decisions = course.decisions;
    *hash_after = course.hash_after;
    return course.waits_for >= 0;
}

size_t paths_size(void)
{
    return sizeof(struct paths);
}

bool paths_are_stopped(const struct paths *paths)
{
    return paths->is_stopped;
}

bool paths_are_open(const struct paths *paths)
{
    return paths->step;
}

static _Thread_local const uint64_t *hashes, *decided;
static _Thread_local uint64_t known;

static bool hash_at(uint64_t steps, struct point *point)
{
    *point = (struct point){ .steps = steps };
    if (steps > known)
        return false;
    point->hash = hashes[steps];
    point->decisions = decided[steps];
    return true;
}

/* The course of a replica that has done so many steps. */
static void course_of(struct course *course, const uint64_t *its_hashes, const uint64_t *its_decided, uint64_t steps,
               uint64_t decisions, int waits_for, uint64_t hash_after)
{
    hashes = its_hashes;
    decided = its_decided;
    known = steps;
    *course = (struct course){ .decisions = decisions, .waits_for = waits_for, .hash_after = hash_after,
                               .at = hash_at };
    hash_at(steps, &course->now);
}

/* One call of the paths with that course: a notice has come, or, from -1, it is looked whether there is news. */
uint32_t paths_step(struct paths *paths, int from, const struct notice *notice, const uint64_t *its_hashes,
                    const uint64_t *its_decided, uint64_t steps, uint64_t decisions, int waits_for,
                    uint64_t hash_after)
{
    struct course course;
    course_of(&course, its_hashes, its_decided, steps, decisions, waits_for, hash_after);
    if (from >= 0)
        return paths_hear(paths, from, notice, &course);
    paths_report(paths, &course);
    return paths_go_on(paths, &course);
}
