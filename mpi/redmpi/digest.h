/* Digests of messages, as they travel: of what was sent, and not of what lay between its parts.
 *
 * A small message travels whole instead, since a message costs more than its bytes. */
#ifndef RAMPART_DIGEST_H
#define RAMPART_DIGEST_H

#include <mpi.h>
#include <stddef.h>

#include "agreement.h"

/* Messages of up to so many bytes travel whole, unless all do (see protocol.h). */
#define WHOLE 1024

/* From so many teams at most comes an envelope. */
#define MOST_COMPARED (MOST_REPLICAS - 1)

/* The message beside the message. It may be longer than this: see envelope_room(). */
struct envelope {
    uint64_t bytes; /* of the message */
    union {
        struct {
            uint64_t low, high;
        } hash;
        unsigned char data[WHOLE];
    } content;
};

/* The bytes of a message of a type, in one piece: the buffer itself where they lie so, else a copy that
 * release_packed() gives back. */
struct packed {
    const void *data;
    size_t bytes;
    void *copy;
};

/* `bytes` is the length of the message; a received one may be shorter than its buffer. */
struct packed pack(const void *buffer, size_t bytes, MPI_Datatype type);
void release_packed(struct packed *packed);

/* Writes a message into a buffer of that type. */
void unpack(void *buffer, const void *data, size_t bytes, MPI_Datatype type);

/* The length of a message of so many elements. */
size_t message_bytes(size_t count, MPI_Datatype type);

/* From one element of the type to the next, in bytes. */
MPI_Aint extent_of(MPI_Datatype type);

/* Whether elements of the type are one piece of data each, without gaps between them. */
bool is_one_piece(MPI_Datatype type);

/* The type is one that the program may free. */
bool is_derived(MPI_Datatype type);

struct digest digest_of(const void *data, size_t bytes);

/* How long an envelope may be that tells of a message of up to so many bytes, of which up to `most` travel whole. It is
 * a multiple of 8, and what the MPI can take. */
size_t envelope_room(size_t bytes, size_t most);

/* Fills an envelope, and returns how many of its bytes are to be sent. The digest is computed if it is null and needed.
 */
size_t fill_envelope(struct envelope *envelope, size_t most, const struct packed *packed, const struct digest *digest);

/* Whether an envelope, of which so many bytes came, has the whole message. */
bool is_whole(const struct envelope *envelope, size_t came);

/* The digest in an envelope, of which so many bytes came. Takes `mine`, the one of the message that is there, if a
 * whole message is the same. */
struct digest digest_in(const struct envelope *envelope, size_t came, const struct packed *packed,
                        const struct digest *mine);

/* The first byte that differs between a message and the one in an envelope; -1 if that has only a hash. */
long first_difference(const struct envelope *envelope, size_t came, const struct packed *packed);

#endif
