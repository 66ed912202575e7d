/* See history.h. */
#include "history.h"

#include <stdatomic.h>

/* Steps whose hash is kept. */
#define KEPT 65536

static _Atomic uint64_t done, hashes[KEPT];

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
