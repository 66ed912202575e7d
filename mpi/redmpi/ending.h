/* The end of a job in which teams may be dropped.
 *
 * Problem: a replica of a team that is dropped never comes to the end, so the replicas that are left cannot meet in a
 * barrier of the MPI; and once the job is over, those that are dropped must end, too. Idea: each replica says when it
 * has come to the end, and waits until the others of its rank that are left have said so; then its team meets; and the
 * first to leave that meeting tells all that the job is over. Why this way: whoever hears that the job is over closes
 * its connections, so it must have said before that it has come to the end. And nobody waits for the others any longer
 * then: one team has the results, and the others do not answer.
 *
 * A program may also leave before its end, or crash. If an error did that, only one replica leaves. So whoever is about
 * to leave says after which path, and waits until all others of its rank that are left have said the same, or its team
 * is dropped. A replica that has come to the end waits for one that is about to leave until a vote has dropped one of
 * them.
 *
 * Pure: the caller sends what is to be sent, and passes on what comes. */
#ifndef RAMPART_ENDING_H
#define RAMPART_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "agreement.h"

enum ending_stage {
    ENDING_FAR,  /* the program goes on */
    ENDING_COME, /* this replica has come to the end, and has not said so yet */
    ENDING_SAID,
    ENDING_MET, /* its team has met */
    ENDING_LEAVES, /* it is about to leave before the end, and has not said so yet */
    ENDING_LEAVES_SAID,
};

struct ending {
    enum ending_stage stage;
    uint32_t come; /* a mask of the others of this rank that have come to the end */
    bool is_over;  /* all know that the job is over, or are about to */
    uint64_t paths[MOST_REPLICAS]; /* of the others that are about to leave, and 0 of all others: a hash is never 0 */
    uint64_t own_path;
};

/* This replica has come to the end. */
void ending_come(struct ending *ending);

/* All of its team have come to the meeting. */
void ending_meet(struct ending *ending);

/* Another replica of this rank has come to the end. */
void ending_hear(struct ending *ending, int from);

/* This replica is about to leave, or another one of its rank, after a path of this hash. */
void ending_leave(struct ending *ending, uint64_t path);
void ending_hear_leaving(struct ending *ending, int from, uint64_t path);

/* Whether it may leave: all of these others of its rank are about to, after the same path. */
bool ending_may_leave(const struct ending *ending, uint32_t others);

/* The job is over, says another process. Returns whether that is news, which is to be passed on to all. */
bool ending_hear_over(struct ending *ending);

/* Whether something is to be said: NOTICE_AT_END or NOTICE_LEAVES to the replicas of this rank, or NOTICE_OVER to
 * all. */
bool ending_say(struct ending *ending, enum notice_kind *kind);

/* Whether its team may meet, if these others of this rank are left, and this replica votes or not. */
bool ending_may_meet(const struct ending *ending, uint32_t others, bool is_voting);

#endif
