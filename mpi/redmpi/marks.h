/* Compares in the background what replicas have received.
 *
 * Problem: with `--mode later`, nobody waits for a comparison, but an error is to be known soon. Idea: each replica
 * keeps a mark of each message in a log (log.h), and its thread of the connections brings the marks to the first
 * replica of the rank, which compares them (comparison.h). Why this way: the program only writes into memory, and one
 * place knows what all replicas have received.
 *
 * The functions are called in the thread of the connections; `peers` are their sockets, -1 where there is none. */
#ifndef RAMPART_MARKS_H
#define RAMPART_MARKS_H

#include <stdbool.h>
#include <stdint.h>

/* When it is known how many replicas there are. */
void begin_marks(void);

/* A replica of this rank has ended: its marks count as far as they came. */
void lose_marks(int replica);

/* Brings marks to the first replica, or compares them if this is it. */
void bring_marks(const int peers[]);

/* Marks of another replica have begun to arrive. */
bool hear_marks(const int peers[], int from, uint64_t count);

/* Messages that were not the same in all replicas. */
uint64_t marks_differed(void);

#endif
