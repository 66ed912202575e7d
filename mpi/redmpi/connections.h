/* The connections between the replicas of a rank, beside MPI.
 *
 * Problem: when a message is wrong, replicas must talk that may be anywhere in the program, also in a call of the MPI
 * that waits for something else. Idea: each process has a thread that answers, on connections of its own (TCP). Why
 * this way: MPI stays as fast as it is: no message of ours must be waited for in each of its calls, and it need not be
 * safe for threads. A connection also ends with its process, so that a death is seen at once. */
#ifndef RAMPART_CONNECTIONS_H
#define RAMPART_CONNECTIONS_H

#include <stddef.h>

#include "agreement.h"
#include "vote.h"

/* Connects the replicas of this rank. All call this, after begin_teams(). */
void begin_connections(void);

/* The program has come to its end: other replicas may end from now on. */
void leave_connections(void);

/* Where teams may be dropped: waits for those that are left, and lets those that are not end. */
void meet_those_left(void);

/* Where teams may be dropped, and the program is about to end before its time: waits until all of its replicas are.
 * Does not return if the others go on, since this one is dropped then. */
void leave_with_those_left(void);

/* Ends the connections, when all replicas of this rank have come to their ends. */
void end_connections(void);

/* Asks the thread to send what is to be sent. */
void wake_connections(void);

/* Whether the job is over: another team has come to the end. */
bool job_is_over(void);

/* What became of a message. */
struct verdict {
    bool differed;    /* from what another team said; the rest is of such a message */
    bool is_accepted; /* it is right, or the replacement is */
    uint64_t number;  /* in the order in which this process compares */
    uint32_t wrong;   /* a mask of the replicas that had a wrong one, as far as they were asked */
    void *replacement; /* the right message, which the caller frees; null: it was right, or there is none */
    size_t bytes;
};

/* The next message of this process is there, with its digest, and `count` digests of other teams: others[i] of team
 * of[i]. Returns when the program may have it. */
struct verdict agree(const void *message, const struct digest *mine, const struct digest *others, const int of[],
                     int count);

/* The same for a message of which this replica has all copies, its own first, and whose they are: it asks nobody. */
struct verdict take_majority(const struct copy copies[], const int of[], int count);

/* Messages that differed so far, and that were replaced. */
struct tally {
    uint64_t compared, differed, replaced;
    uint64_t thread_ns; /* of CPU time that the thread used */
};

struct tally connections_tally(void);

#endif
