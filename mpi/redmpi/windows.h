/* One-sided communication.
 *
 * Problem: memory that others read and write has no receive at which it could be compared. Idea: each team has its own
 * windows. What a process puts into a window is compared between its replicas before it leaves, and mended where it
 * lies; what it gets is compared when the program may use it. Why this way: a window need never be compared as a
 * whole, and no wrong byte is put into one.
 *
 * Who comes first would differ between teams. So replica 0 decides it: the order of locks, and what atomic operations
 * find; the others wait until their own window is in that state. */
#ifndef RAMPART_WINDOWS_H
#define RAMPART_WINDOWS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "compare.h"

/* What the program gets, and has not seen yet. */
struct pending_get {
    struct region region;
    int target;
    bool is_open;    /* others may write meanwhile: neither between fences nor under an exclusive lock */
    bool is_decided; /* replica 0 decides what it is: it depends on who comes first */
    /* To get it again, if it is not decided. */
    int count;
    MPI_Datatype type;
    MPI_Aint place;
};

struct window {
    MPI_Win native;
    MPI_Comm comm; /* a duplicate of its communicator */
    struct shadow *shadow;
    int size;
    int shared_locks;   /* that are held, at any target */
    bool can_get_again; /* the call that ends an access leaves it open */
    bool *is_exclusive; /* the lock held at a target */
    /* Tickets for exclusive locks, a pair in each process: the next one, and the one whose turn it is. */
    MPI_Win tickets;
    struct pending_get *gets;
    int used, room;
};

/* The record of a window; ends the job if there is none. */
struct window *window_of(MPI_Win native);

/* Compares what the program puts, before it leaves. */
void offer(const struct window *window, const char *name, const void *buffer, int count, MPI_Datatype type, int target);

/* The program may use this after the next call that ends the access. */
void remember_get(struct window *window, struct pending_get get);

/* Compares what the program got from a target, or from all if it is negative. */
void settle(struct window *window, int target);

/* Replica 0 tells the others so many bytes. */
void share_bytes(void *bytes, int length);

/* Tickets of a target: adds to one, and returns what it was. */
enum ticket { TICKET_NEXT, TICKET_TURN };
uint64_t add_to_ticket(const struct window *window, int target, enum ticket which, uint64_t amount);

#endif
