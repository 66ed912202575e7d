/* Receives that could take several messages (wildcards), and those behind them.
 *
 * Problem: a receive from any source takes what comes first, which is another message for each replica; and the digest
 * of a message is found only when its source and tag are known. Idea: the replica that decides receives as the program
 * says, and tells the others which message each such receive took; the others receive that very message [Fiala15,
 * 3.3.3]. A later receive that could take the same message must not come first: with the others it is held back
 * until the earlier one is resolved, and on all replicas its digests are. All other receives go their way at once.
 *
 * So messages of one source and tag are taken in the order in which the receives were posted, as the MPI promises, and
 * so are their digests. A receive of any tag from one source needs no decision: the MPI's order alone says what it
 * takes, unless it is behind another one. */
#ifndef RAMPART_RECEIVES_H
#define RAMPART_RECEIVES_H

#include "requests.h"

/* Posts a receive of the program, whose record says what it wants. */
int post_receive(struct request *request);

/* Posts one of the library, from one source and with one tag. It may be posted at any time: no receive of the program
 * could take its message. */
int post_known_receive(struct request *request);

/* Receives the digests of a message whose source and tag are known. No earlier receive may take them
 * (is_held_back()). */
void post_digests(struct request *request);

/* Whether the message and its digests are there; does not wait. */
bool receive_is_here(struct request *request);

/* Waits for the message and its digests, and compares them: the program may have it then. The result is that of the
 * MPI. */
int finish_receive(struct request *request, MPI_Status *status);

/* The program cancels a receive. */
int cancel_receive(struct request *request);

/* Goes on with uncertain receives, as far as that is possible now. Whatever waits calls this. */
void advance_receives(void);

/* Whether the program has posted the receive of this number. */
bool was_posted(uint64_t number);

/* Another replica is about to decide (succession.h): what receives take is decided anew, unless it is here. Of the one
 * that decides then: posts what it had held back. */
void revoke_receives(void);
void post_as_first(void);

/* It was decided what a receive takes. */
void resolve_receive(uint64_t number, int source, int tag);

/* Whether an earlier receive may still take a message of this source and tag. */
bool is_held_back(MPI_Comm comm, int source, int tag);

/* Whether receives may need this library while the MPI waits. */
bool receives_need_us(void);

#endif
