/* The end of a job in which teams may be dropped.
 *
 * Problem: a replica of a team that is dropped never comes to the end, so the replicas that are left cannot meet in a
 * barrier of the MPI; and once the job is over, those that are dropped must end, too. Idea: each replica says when it
 * has come to the end, and waits until the others of its rank that are left have said so; then its team meets; and the
 * first to leave that meeting tells all that the job is over. Why this way: whoever hears that the job is over closes
 * its connections, so it must have said before that it has come to the end. And nobody waits for the others any longer
 * then: one team has the results, and the others do not answer.
 *
 * Pure: who has the connections passes on what comes and sends what is to be sent. */
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
};

struct ending {
    enum ending_stage stage;
    uint32_t come; /* a mask of the others of this rank that have come to the end */
    bool is_over;  /* all know that the job is over, or are about to */
};

/* This replica has come to the end. */
void ending_come(struct ending *ending);

/* All of its team have come to the meeting. */
void ending_meet(struct ending *ending);

/* Another replica of this rank has come to the end. */
void ending_hear(struct ending *ending, int from);

/* The job is over, says another process. Returns whether that is news, which is to be passed on to all. */
bool ending_hear_over(struct ending *ending);

/* Whether something is to be said: NOTICE_AT_END to the replicas of this rank, or NOTICE_OVER to all. */
bool ending_say(struct ending *ending, enum notice_kind *kind);

/* Whether its team may meet, if these others of this rank are left, and this replica votes or not. */
bool ending_may_meet(const struct ending *ending, uint32_t others, bool is_voting);

#endif
