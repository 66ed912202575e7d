/* What this process waits for, in calls of MPI.
 *
 * Problem: ranks that wait for each other do so for ever, and nobody says why nothing happens. Idea: a process that has
 * waited in one call for longer than the user's patience leaves a file that says for what, and removes it when it goes
 * on. When all processes of the job have such a file, `rampart mpirun` says what they wait for. Why this way: nothing
 * is sent or written while all goes well; and as long as one process computes, nobody is accused.
 *
 * A program that waits by MPI_Test or MPI_Iprobe in a loop of its own is not seen to wait. */
#ifndef RAMPART_WAITS_H
#define RAMPART_WAITS_H

#include <stdbool.h>

#include "teams.h"

/* Learns how long that is; after begin_teams(). */
void begin_waits(void);

/* Begins to wait for a message of a peer, or to one; or, without a peer (-1), in a function. Within another wait, that
 * one is what counts. `what` is "message", "turn" (at a window), "meeting" (with all of a communicator), or the name of
 * a function of MPI. */
void begin_wait(const char *what, const struct shadow *shadow, int peer, int tag);
void end_wait(void);

/* Whether it waits now; in any thread. */
bool is_waiting(void);

/* Looks at what the program's thread waits for; in another thread, about once a second. */
void look_at_wait(void);

#endif
