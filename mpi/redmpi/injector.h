/* Flips bits in what the program sends [Fiala15, 3.4], or changes one of its calls. */
#ifndef RAMPART_INJECTOR_H
#define RAMPART_INJECTOR_H

#include <mpi.h>
#include <stddef.h>

/* Reads what the user wants from RAMPART_INJECT, words of the form name=number:
 *   odds=X      each message is hit with a probability of 1/X
 *   at=N        the N-th message that a process sends is hit, and no other
 *   step=N      the first message that a process sends after the N-th step (timesteps.h) is hit, and no other
 *   rank=N replica=N    only messages of these
 *   seed=N
 *   change=WORD at=N    no bits are flipped: the N-th message that a process sends is another one (tag, length,
 *                       target), or is not sent (skip), or the program does nothing more (loop), or crashes, or calls
 *                       MPI_Abort or exit */
void begin_injector(void);

/* May flip one bit of a message that is about to be sent, in the program's own memory. */
void inject(void *buffer, size_t bytes, MPI_Datatype type, int peer, int tag);

/* May change a message that the program is about to send to one of so many. */
void change_call(int *count, int *peer, int *tag, int peers);

#endif
