/* What a message of the program is made of, for functions that send and receive in other ways than messages.c. */
#ifndef RAMPART_MESSAGES_H
#define RAMPART_MESSAGES_H

#include "requests.h"

/* Sends a message, and what other teams need to compare it. */
int begin_send(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request *request);

/* A record of what the program wants, for later. */
struct request *wanted(enum request_kind kind, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                       MPI_Comm comm);

/* Whether the MPI takes a receive like this. What it refuses has no digest that we could wait for. */
bool can_be_received(const struct shadow *shadow, int count, MPI_Datatype type, int source, int tag);

#endif
