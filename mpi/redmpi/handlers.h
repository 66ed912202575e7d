/* Error handlers of the program's communicators.
 *
 * Problem: a fault that changes the length or the tag of a message can make a call of the MPI fail in one replica. The
 * MPI then ends the whole job, which is the default, and most programs keep it. Idea: instead of MPI_ERRORS_ARE_FATAL,
 * the MPI gets a handler of ours. There the replica leaves as one that crashes does (leaving.h): if the others go on,
 * its team is dropped. Why this way: the MPI calls the handler wherever the error is, so that no wrapper need look for
 * one.
 *
 * Open receives are tested in calls that have nothing to do with them, at different moments in each replica. So the
 * error of a receive is kept until the program waits for it. The message is compared first, as any other one is: if
 * the one that most teams have can be had, the receive succeeds with that.
 *
 * The MPI hands a handler the communicator of the error. That may be the team's, which the program knows as
 * MPI_COMM_WORLD. So one function of ours stands for each handler of the program, and finds it by its handle. */
#ifndef RAMPART_HANDLERS_H
#define RAMPART_HANDLERS_H

#include <mpi.h>
#include <stdbool.h>

/* Called once it is known whether teams may be dropped, and before the program has communicators. */
void begin_handlers(void);

/* MPI_Test and MPI_Wait which call no handler; unless a process is dead, or the handler was made in Fortran. */
int test_keeping_error(MPI_Request *request, int *is_done, MPI_Status *status);
int wait_keeping_error(MPI_Request *request, MPI_Status *status);

/* Calls the handler for a result that one of these two gave, if it was no success. Returns the result. */
int raise_kept_error(MPI_Comm comm, int error);

/* Whether a handler of this file is at work: the MPI has called it, and may be called by it. */
bool is_handling_error(void);

#endif
