/* Compares what a replica received with what other teams say of it, and mends it. */
#ifndef RAMPART_COMPARE_H
#define RAMPART_COMPARE_H

#include "digest.h"
#include "teams.h"

/* A part of the program's memory that was received. */
struct region {
    void *buffer;
    size_t bytes; /* of data; between them are gaps of the type */
    MPI_Datatype type;
};

struct region region_of(const void *buffer, size_t count, MPI_Datatype type);

/* Keeps a duplicate of the type, since the program may free its own; and frees that. */
void keep_type_of(struct region *region);
void drop_type_of(struct region *region);

/* What other teams say. */
struct testimony {
    const struct envelope *envelopes[MOST_COMPARED];
    size_t came[MOST_COMPARED]; /* bytes of each; 0: it was too long */
    int teams[MOST_COMPARED]; /* whose they are */
    int count;
    bool is_complete; /* all teams have sent their copies: nobody else need be asked */
    size_t room; /* for the message; 0: what is received has its length */
};

/* Stands for each message for which there is no room: the MPI has an error for the program then. */
extern const struct digest too_long;

/* Where it comes from, for the report. */
struct origin {
    const char *what;            /* a message, or the name of a collective operation */
    const struct shadow *shadow; /* of its communicator */
    int peer, tag;               /* -1: none */
};

/* The rank of the sender among all of the team, whatever communicator the message came by; -1 if there is none. */
static inline int sender_of(const struct origin *origin)
{
    return origin->peer < 0 ? -1 : origin->shadow->ranks[origin->shadow->first_peer + origin->peer];
}

/* All regions in one piece, in their order. */
struct packed pack_regions(const struct region *regions, int count);

/* Returns when the program may have what is in the regions, and how many bytes it is then. The job ends here if no
 * majority is right, unless the user wants it to go on. If replicas are compared later, it is logged only. `packed` is
 * what was received, and is released; `mine` is its digest. `was_replaced` becomes true if it was, and may be null. */
size_t compare(struct region *regions, int count, struct packed *packed, const struct digest *mine,
               const struct testimony *testimony, const struct origin *origin, bool *was_replaced);

#endif
