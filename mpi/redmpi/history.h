/* What this replica has done so far: the path of the program through its calls of MPI.
 *
 * Problem: an error may change not what a replica says, but what it does: it sends something else, or nothing, and all
 * others wait for it for ever. Idea: each call that concerns others is a step, and a hash of all steps so far is kept
 * for the last of them. Replicas that wait tell each other how far they are; if their hashes of the same step differ,
 * one of them has left the common path. Why this way: nothing is sent while all goes well, and a replica that is only
 * slow is not taken for one that is wrong. */
#ifndef RAMPART_HISTORY_H
#define RAMPART_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "paths.h"

enum step {
    STEP_SEND,
    STEP_RECEIVE,
    STEP_COLLECTIVE,
    STEP_DECISION,
    STEP_COMMUNICATOR,
    STEP_WAIT,
    STEP_END,
    STEP_LEAVE,
};

/* One round of a hash of words. It need not withstand an attacker: words are a few numbers, changed by accident. */
static inline uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* The program does this next; the numbers are those that are the same for all replicas. */
void record_step(enum step kind, int64_t one, int64_t two, int64_t three);

/* The program has got a decision (decisions.h), also one that nothing was found. How many of them there were before a
 * step is part of its hash. */
void record_decision(void);

/* This replica waits for a decision of another one, of such a kind; -1: for none any more. */
void expect_decision(int of, int kind);

/* Where this replica is. In any thread. */
void find_course(struct course *course);

/* How many steps it has done, and the hash of them. In any thread. */
uint64_t steps_done(uint64_t *hash);

/* The hash of so many steps; false if there were not so many, or it was too long ago. In any thread. */
bool steps_hash(uint64_t steps, uint64_t *hash);

#endif
