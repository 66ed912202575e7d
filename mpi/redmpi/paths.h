/* Which replica of a rank has left the path that all of them had in common.
 *
 * Problem: replicas that do different things wait for each other for ever, and none knows which one is wrong. Idea:
 * they tell each other how far they are (history.h). If two have different hashes of a step, they call a vote on
 * it, and those outside the majority are out. Why this way: a hash of a step covers all earlier ones, so any step at
 * which two differ will do; and a replica that has not done it yet votes when it has.
 *
 * A replica that waits for a decision of another one has not recorded it. If the one that decides has gone on without
 * sending any, the waiting one votes for the hash that it would have after the decision. So a deciding replica that has
 * left the path is found, too.
 *
 * Pure: who has the connections passes on what comes and sends what is to be sent. */
#ifndef RAMPART_PATHS_H
#define RAMPART_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "agreement.h"

/* A point of a replica's path. */
struct point {
    uint64_t steps, hash;
    uint64_t decisions; /* that were made, or followed, before the last of these steps */
};

/* What a replica knows of itself. */
struct course {
    struct point now;
    uint64_t decisions;  /* so far */
    int waits_for;       /* the replica of which it wants a decision; -1: none */
    uint64_t hash_after; /* if the next step is that decision */
    bool (*at)(uint64_t steps, struct point *point); /* false: not so far yet, or too long ago */
};

struct path_outgoing {
    int to;
    struct notice notice;
};

struct paths {
    int replicas, own;
    uint32_t out;  /* a mask of those that count no longer */
    uint64_t step; /* on which they vote; 0: none */
    uint32_t voted; /* a mask of those whose hash of it is known */
    uint64_t hashes[MOST_REPLICAS];
    struct point own_vote;
    bool is_stopped; /* no majority */
    struct path_outgoing messages[4 * MOST_REPLICAS];
    int count;
};

void paths_begin(struct paths *paths, int replicas, int own);

/* A notice of the kinds NOTICE_PATH, NOTICE_ASK_PATH or NOTICE_VOTE has come. Returns a mask of those that are out
 * since, this replica perhaps among them. */
uint32_t paths_hear(struct paths *paths, int from, const struct notice *notice, const struct course *course);

/* This replica may have gone on: looks whether it can vote now. */
uint32_t paths_go_on(struct paths *paths, const struct course *course);

/* Tells all others how far it is, and asks those again whose vote it lacks. */
void paths_report(struct paths *paths, const struct course *course);

/* These are out, as others have found. */
uint32_t paths_leave_out(struct paths *paths, uint32_t out);

/* Takes the next notice that is to be sent. */
bool paths_say(struct paths *paths, int *to, struct notice *notice);

#endif
