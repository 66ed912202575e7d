/* Generalized requests: the program itself says when they have ended. They need nothing of the MPI. */
#ifndef RAMPART_GENERALIZED_H
#define RAMPART_GENERALIZED_H

#include "requests.h"

/* Whether the program has said so; in any thread. */
bool generalized_is_done(const struct request *request);

/* Waits for that, and asks the program for the status. */
int end_generalized(struct request *request);

/* The program cancels it. */
int cancel_generalized(struct request *request);

/* The program has no handle of it any more. If it goes on, the record is kept until it ends. */
int free_generalized(struct request *request);

#endif
