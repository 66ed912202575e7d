/* Communicators that are duplicated while the program goes on (MPI_Comm_idup): the shadow is duplicated beside. */
#ifndef RAMPART_DUPLICATES_H
#define RAMPART_DUPLICATES_H

#include <stdbool.h>

struct request;

/* Whether its shadow is made; the communicator itself is behind the request's data. */
bool duplicate_is_made(const struct request *request);

/* The communicator is made: the program gets it, with a shadow. */
void end_duplicate(struct request *request);

#endif
