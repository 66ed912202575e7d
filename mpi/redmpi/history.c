/* See history.h. */
#include "history.h"

#include <stdatomic.h>

/* Steps whose hash is kept. */
#define KEPT 65536

static _Atomic uint64_t done, hashes[KEPT];

/* Decisions so far, and before each step. */
static _Atomic uint64_t decided, decided_before[KEPT];

/* What is waited for changes in one thread, and is read in another. It is one number, so that both of its halves are
 * seen to change at once; the upper half is how often it has changed. The lower half has the kind of decision, and the
 * replica, of which 0 is none and 1 is the first. */
static _Atomic uint64_t expected;

/* A decision has the same hash after any number of tests in vain: who waits for one does not know how many there will
 * be, above all if another replica decides then. */
static uint64_t mix_step(uint64_t hash, enum step kind, int64_t one, int64_t two, int64_t three, uint64_t decisions)
{
    hash = mix(mix(mix(mix(hash, (uint64_t)kind + 1), (uint64_t)one), (uint64_t)two), (uint64_t)three);
    return mix(hash, kind == STEP_DECISION ? 0 : decisions);
}

void record_step(enum step kind, int64_t one, int64_t two, int64_t three)
{
    uint64_t steps = atomic_load_explicit(&done, memory_order_relaxed);
    uint64_t hash = atomic_load_explicit(&hashes[steps % KEPT], memory_order_relaxed);
    uint64_t decisions = atomic_load_explicit(&decided, memory_order_relaxed);
    hash = mix_step(hash, kind, one, two, three, decisions);
    atomic_store_explicit(&decided_before[(steps + 1) % KEPT], decisions, memory_order_relaxed);
    atomic_store_explicit(&hashes[(steps + 1) % KEPT], hash, memory_order_relaxed);
    atomic_store_explicit(&done, steps + 1, memory_order_release);
}

uint64_t steps_done(uint64_t *hash)
{
    uint64_t steps = atomic_load_explicit(&done, memory_order_acquire);
    *hash = atomic_load_explicit(&hashes[steps % KEPT], memory_order_relaxed);
    return steps;
}

bool steps_hash(uint64_t steps, uint64_t *hash)
{
    *hash = atomic_load_explicit(&hashes[steps % KEPT], memory_order_relaxed);
    uint64_t now = atomic_load_explicit(&done, memory_order_acquire);
    /* The next step may be written over the oldest one at this moment. */
    return steps <= now && now - steps < KEPT - 1;
}

void record_decision(void)
{
    atomic_fetch_add_explicit(&decided, 1, memory_order_release);
}

void expect_decision(int of, int kind)
{
    uint64_t before = atomic_load(&expected), changes = before >> 32;
    uint32_t next = (uint32_t)kind << 16 | (uint32_t)(of + 1);
    if ((uint32_t)before != next)
        atomic_store(&expected, (changes + 1) << 32 | next);
}

static bool point_at(uint64_t steps, struct point *point)
{
    *point = (struct point){ .steps = steps };
    point->decisions = atomic_load_explicit(&decided_before[steps % KEPT], memory_order_relaxed);
    return steps_hash(steps, &point->hash);
}

void find_course(struct course *course)
{
    uint64_t hash, steps = steps_done(&hash), before = atomic_load(&expected);
    *course = (struct course){ .at = point_at, .waits_for = (int)(before & 0xffff) - 1 };
    point_at(steps, &course->now);
    course->decisions = atomic_load(&decided);
    course->hash_after = mix_step(hash, STEP_DECISION, (int)(before >> 16 & 0xffff), 0, 0, course->decisions);
    /* It may have gone on meanwhile. */
    if (steps_done(&hash) != steps || atomic_load(&expected) != before)
        course->waits_for = -1;
}
