/* A replica that leaves before the end of the program: it crashes, calls MPI_Abort or exit, or a call of the MPI fails.
 *
 * Problem: an error often makes one replica crash, or find its data to be wrong and give up. The launcher then ends all
 * others with it. Idea: to leave is like one more call that all replicas must make. Whoever is about to leave waits
 * until all replicas of its rank are about to, and leaves then. If the others go on, its team is dropped instead, as
 * one that made other calls than they did; the process sleeps until the job ends. Why this way: the MPI never learns of
 * it, so that it works with any MPI.
 *
 * A process that has crashed sleeps in the handler of the signal, with another heap (spare_heap.h). That takes an MPI
 * that still works: a crash in a call of the MPI ends the process at once, as without this file; and so does MPI_Abort
 * in a handler of a signal that has interrupted such a call. */
#ifndef RAMPART_LEAVING_H
#define RAMPART_LEAVING_H

#include <stdbool.h>

/* The last step of MPI_Init. A signal for which the program has a handler of its own is left to it. */
void begin_leaving(void);

enum way_out { OUT_BY_CRASH, OUT_BY_ABORT, OUT_BY_EXIT, OUT_BY_ERROR };

/* The program is about to leave. The number is a signal, that of MPI_Abort, 0 for exit, or the class of an error of the
 * MPI. Does not return if this replica alone leaves, and the job goes on without its team. */
void leave_with_others(enum way_out way, int number);

/* The job ends now: this process no longer waits for others. */
void leave_at_once(void);

/* Ends a process that has crashed if it cannot finalize the MPI ten seconds after all others are done. In the thread of
 * the connections, once a second. */
void end_if_stuck(bool are_all_others_done);

/* For the injector: as if the program had crashed, or had called exit. */
void crash(void);
_Noreturn void leave_by_exit(void);

#endif
