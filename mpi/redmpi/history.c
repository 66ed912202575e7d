/* See history.h. */
#include "history.h"

#include <stdatomic.h>

/* Steps whose hash is kept. */
#define KEPT 65536

static _Atomic uint64_t done, hashes[KEPT];

/* One round of a hash of words. It need not withstand an attacker: a step is a few numbers, changed by accident. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

void record_step(enum step kind, int64_t one, int64_t two, int64_t three)
{
    uint64_t steps = atomic_load_explicit(&done, memory_order_relaxed);
    uint64_t hash = atomic_load_explicit(&hashes[steps % KEPT], memory_order_relaxed);
    hash = mix(mix(mix(mix(hash, (uint64_t)kind + 1), (uint64_t)one), (uint64_t)two), (uint64_t)three);
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
