/* The counters by which teams take turns at windows.
 *
 * Each process has some for each window: the next ticket for a lock, and the one whose turn it is; who has a shared
 * lock; and the tickets of accesses. They lie in a window of ours. Many windows of a communicator share one, and one
 * duplicate of the communicator: MPICH 4.0 has room for about 2,000 windows and communicators together, and a program
 * may need most of them. */
#ifndef RAMPART_TICKETS_H
#define RAMPART_TICKETS_H

#include <mpi.h>
#include <stdint.h>

#include "teams.h"

/* What is counted. The counters of a window fill a line of the cache: MPICH 4.0 finds those of others at wrong places
 * if they have 40 bytes. */
enum ticket { LOCK_NEXT, LOCK_TURN, READERS, ACCESS_NEXT, ACCESS_TURN, TICKETS = 8 };

/* Counters of some windows. */
struct ticket_table;

/* The counters of one. */
struct tickets {
    struct ticket_table *table;
    int place; /* the same in all members of its communicator */
};

/* All members of the communicator call these, in the same order for all of their windows. */
struct tickets take_tickets(struct shadow *shadow, MPI_Comm comm);
void give_tickets_back(struct shadow *shadow, const struct tickets *tickets);

/* A communicator with the same members, which the program cannot free. Windows have a tag each on it: their place. */
MPI_Comm comm_of_tickets(const struct tickets *tickets);

/* Adds to a counter of a target, and returns what it was. */
uint64_t add_to_ticket(const struct tickets *tickets, int target, enum ticket which, uint64_t amount);

#endif
