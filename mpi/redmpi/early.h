/* Digests that came before it was known which receive they belong to.
 *
 * Problem: when the replica that decides is dropped, receives are revoked (receives.h), and the MPI may have given a
 * digest to one of them already. The receive may come to take another message, and the message to which the digest
 * belongs is taken by a later one; that one would wait for the digest for ever, or take the next one. Idea: such
 * digests are kept here, and a receive looks here first. Why this way: digests of one sender and tag come in the order
 * of their messages, whichever receives take those. */
#ifndef RAMPART_EARLY_H
#define RAMPART_EARLY_H

#include <stddef.h>

#include "teams.h"

/* Whose digests they are: a rank of a shadow communicator, and the tag of the messages. */
struct origin_of_digest {
    const struct shadow *shadow;
    int rank, tag;
};

/* Keeps one that is older than all others of this origin. */
void keep_early_digest(struct origin_of_digest origin, const void *digest, size_t bytes);

/* Takes the oldest one of this origin, as far as there is room; returns its length, or 0 if there is none. */
int take_early_digest(struct origin_of_digest origin, void *digest, size_t room);

#endif
