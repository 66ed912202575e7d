/* Communicators that are duplicated while the program goes on (MPI_Comm_idup): the shadow is duplicated beside. */
#ifndef RAMPART_DUPLICATES_H
#define RAMPART_DUPLICATES_H

#include <mpi.h>
#include <stdbool.h>

struct request;

/* If the MPI cannot make several duplicates of a communicator at once: waits for those of this one that are under way.
 * With Open MPI 4.1.4, one of two often was never made, and for each that the program wants, two are made. Those of
 * other communicators are not waited for: each process may begin them in an order of its own. */
void await_duplicates(MPI_Comm comm);

/* Whether its shadow is made; the communicator itself is behind the request's data. */
bool duplicate_is_made(const struct request *request);

/* The communicator is made: the program gets it, with a shadow. */
void end_duplicate(struct request *request);

#endif
