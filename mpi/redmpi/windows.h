/* One-sided communication.
 *
 * Problem: memory that others read and write has no receive at which it could be compared. Idea: each team has its own
 * windows. What a process puts into a window is compared between its replicas before it leaves, and mended where it
 * lies; what it gets is compared when the program may use it. Why this way: a window need never be compared as a
 * whole, and no wrong byte is put into one.
 *
 * Who comes first would differ between teams. So replica 0 decides it, by tickets: locks, and under shared locks also
 * atomic operations and accesses that may be flags, take their turns at each target in the order of the first team. */
#ifndef RAMPART_WINDOWS_H
#define RAMPART_WINDOWS_H

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "compare.h"
#include "tickets.h"

/* What the program gets, and has not seen yet. */
struct pending_get {
    struct region region;
    int target;
    bool is_decided; /* replica 0 decides what it is: it depends on who comes first */
};

struct window {
    MPI_Win native;
    MPI_Comm comm; /* one with its members, which it shares with other windows */
    struct shadow *shadow;
    int size;
    int shared_locks; /* that are held, at any target */
    bool is_started;    /* between MPI_Win_start and MPI_Win_complete */
    bool *is_exclusive; /* the lock held at a target */
    struct tickets tickets;
    struct pending_get *gets;
    int used, room;
};

/* The record of a window; null before the first and after the last call of MPI. */
struct window *window_of(MPI_Win native);

/* Waits until it is this process's turn at a target, in the order of the first team. */
void wait_for_turn(const struct window *window, int target, enum ticket next, enum ticket turn);

/* Whether others may access the target meanwhile, and not only at the next fence or the like. */
static inline bool is_open(const struct window *window, int target)
{
    return target >= 0 && target < window->size && window->shared_locks && !window->is_exclusive[target];
}

/* An access to an open target has its turn, and has had it. */
void begin_access(const struct window *window, int target);
void end_access(const struct window *window, int target);

/* Compares what the program puts, before it leaves. */
void offer(const struct window *window, const char *name, const void *buffer, int count, MPI_Datatype type, int target);

/* Compares what was found by an access that has ended. */
void check_found(const struct window *window, const char *name, void *buffer, int count, MPI_Datatype type);

/* The program may use this after the next call that ends the access. */
void remember_get(struct window *window, void *buffer, int count, MPI_Datatype type, int target, bool is_decided);

/* Compares what the program got from a target. */
#define ALL_TARGETS INT_MIN
void settle(struct window *window, int target);

/* Makes a request of an operation that has ended with this result, and returns the result. */
int ended_request(int result, MPI_Request *request);

/* Replica 0 tells the others so many bytes. */
void share_bytes(void *bytes, int length);

#endif
