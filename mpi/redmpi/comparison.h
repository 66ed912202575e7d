/* How what the replicas of a rank have received is compared behind the program (`--mode later`).
 *
 * Problem: replicas run at different speeds, and none waits for the others. What they received is known in batches of
 * any size, of one long before that of another. Idea: each replica writes a mark for each thing it receives, in the
 * order of its program, which is the same for all. The lowest replica gets the marks of all, and compares those of a
 * number when each replica's has come; the majority is right, as in agreement.h. Why this way: marks go one way, and
 * nobody asks for anything. A replica has no more marks on their way than there are places here, so that the room is
 * fixed.
 *
 * A mark has two parts: what the replica has done until then (history.h), and what it got. If only the latter
 * differs, an error was in the data. If the former does, replicas do different things, and nothing that comes later
 * can be compared.
 *
 * Pure: who has the connections hands in what comes. */
#ifndef RAMPART_COMPARISON_H
#define RAMPART_COMPARISON_H

#include "agreement.h"

struct mark {
    uint64_t path; /* a hash of what was done */
    uint64_t content; /* and of what was received */
};

enum comparison_result {
    COMPARISON_WAITS,   /* for marks */
    COMPARISON_DIFFERS, /* the last number that was compared is not the same in all replicas */
    COMPARISON_PARTED,  /* nor is what they have done until then; it is the last one */
};

struct comparison {
    int replicas;
    uint64_t places;   /* marks of each replica that may wait here */
    uint64_t compared; /* numbers begin with 1 */
    bool is_over;
    uint64_t came[MOST_REPLICAS]; /* marks */
    bool is_lost[MOST_REPLICAS];
    struct mark *marks; /* by replica, and number */
};

/* `marks` has so many places for each replica. */
void comparison_begin(struct comparison *comparison, int replicas, struct mark *marks, uint64_t places);

/* The next marks of a replica have come; false if it has sent more than there may be. */
bool comparison_take(struct comparison *comparison, int replica, const struct mark *marks, uint64_t count);

/* A replica has died: nobody waits for more of its marks. Those that have come count. */
void comparison_lose(struct comparison *comparison, int replica);

/* Compares what has come of all, up to the first number that differs. `wrong` becomes a mask of the replicas that are
 * not of the majority; 0 if there is none. */
enum comparison_result comparison_go_on(struct comparison *comparison, uint32_t *wrong);

#endif
