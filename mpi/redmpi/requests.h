/* The requests that the program holds.
 *
 * A receive is more than one request of the MPI: the message, and digests of it from other teams. The program gets a
 * handle of ours for it, in the form of the MPI's own: where handles are numbers, those that the MPI never gives out;
 * where they are pointers, pointers to our records. All other requests are the MPI's own. */
#ifndef RAMPART_REQUESTS_H
#define RAMPART_REQUESTS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "fortran.h"
#include "teams.h"

enum request_kind {
    REQUEST_FREE,
    REQUEST_RECEIVE,
    REQUEST_SEND,
    REQUEST_COLLECTIVE,
    REQUEST_COMMUNICATOR,
    REQUEST_PARTS,       /* a send or a receive */
    REQUEST_GENERALIZED, /* the program ends it */
};

/* What a send waits for. */
enum send_mode { SEND_STANDARD, SEND_SYNCHRONOUS, SEND_READY, SEND_BUFFERED };

struct request {
    enum request_kind kind;
    bool is_persistent, is_active;
    bool is_checked;   /* it has ended, and was compared; the program has still to wait for it */
    bool is_type_ours; /* the type is a duplicate, since the program may free its own */
    enum send_mode mode;
    void *buffer;
    int count;
    MPI_Datatype type;
    int wanted_peer, wanted_tag; /* by the program: MPI_ANY_SOURCE, MPI_ANY_TAG */
    int peer, tag;               /* as far as they are known */
    MPI_Comm comm;
    struct shadow *shadow;
    MPI_Request data;
    MPI_Status status; /* of the data, once they are there */
    int result;
    struct transfer *transfer; /* of a collective operation */
    struct duplicate *duplicate; /* of a communicator */
    struct parts *parts;
    struct generalized *generalized;
    /* Receives only. */
    uint64_t number;   /* in the order in which they were posted */
    bool is_blocking;  /* the program does nothing else until it is here */
    void *landing;     /* where the message arrives; null: in the buffer */
    MPI_Request sent;  /* the send of MPI_Isendrecv, which ends with it */
    void *sent_copy;   /* what is sent, if its buffer is that of the receive */
    const struct request *whole; /* of which the message is a part */
    bool is_uncertain; /* listed in receives.c */
    bool is_revocable; /* listed there, too, among those whose message is decided and not here yet */
    bool is_kept;      /* what was decided about it counts */
    bool is_posted, is_here, is_cancelled;
    MPI_Request digests[MOST_COMPARED];
    int early[MOST_COMPARED]; /* bytes of those that had come before (early.h); 0: none */
    size_t room;     /* for the message */
    void *envelopes; /* so many, each in a room of its own; kept when the record is used again, unless it has copies */
    bool has_lost_envelopes; /* the MPI may still write to them */
    struct request *earlier, *later; /* uncertain receives, as posted */
    struct request *next_free;
};

struct request *new_request(enum request_kind kind);
void free_request(struct request *request);

/* Sets the request's type. The program may free a derived type meanwhile, so the request gets a duplicate of it. */
void keep_type(struct request *request, MPI_Datatype type);

MPI_Request handle_of(const struct request *request);

/* The record behind a handle; null if the request is the MPI's own, or none. */
struct request *request_of(MPI_Request handle);

/* Waits for a request of the MPI while all else goes on. */
int complete(MPI_Request *request, MPI_Status *status);

/* The same for one that needs nothing else. */
void complete_alone(MPI_Request *request);

/* Copies a communicator, as all its members do. MPI_Comm_dup would wait without a rest in many MPIs, which is slow with
 * more processes than CPUs. */
void duplicate_alone(MPI_Comm comm, MPI_Comm *copy);

/* The same while all else goes on, for a message to or from another team; it is given up if that is dropped. */
void complete_with(MPI_Request *request, int team);

/* Hands over the status of what was waited for alone: the error in it stays as it was. */
void give_status(MPI_Status *status, const MPI_Status *found);

/* Lets the MPI do what others need of this process, which waits for nothing of the MPI. */
void let_mpi_go_on(void);

/* Lets other processes run, after so many looks in vain. */
void rest(unsigned looks);

/* One turn of a wait in a call of the program: sends decisions that the other replicas do not know yet, advances all
 * open receives, and rests. */
void wait_on(unsigned looks);

#endif
