/* See digest.h. */
#include "digest.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "hash.h"

/* Types whose facts are kept; more than programs use. */
#define KEPT_TYPES 64

/* A piece that is packed at a time: lengths are ints there. */
#define PIECE (UINT64_C(1) << 30)

struct type_facts {
    MPI_Datatype type;
    size_t size; /* bytes of data in an element */
    MPI_Aint extent;
    bool is_known, is_dense, is_derived;
};

static struct type_facts kept[KEPT_TYPES];

static struct type_facts *place_of(MPI_Datatype type)
{
    uint64_t bits = 0;
    memcpy(&bits, &type, sizeof type);
    return &kept[(bits * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
}
_Static_assert(KEPT_TYPES == 1 << (64 - 58), "the hash is that long");

/* How a type was made: numbers of the arguments of each kind. A type that was made with large counts can be asked only
 * by functions with large counts. */
#if MPI_VERSION >= 4
struct making {
    MPI_Count integers, addresses, counts, types;
    int combiner;
};

static struct making making_of(MPI_Datatype type)
{
    struct making making;
    PMPI_Type_get_envelope_c(type, &making.integers, &making.addresses, &making.counts, &making.types,
                             &making.combiner);
    return making;
}

/* The type that it was made of, with at most one number. */
static MPI_Datatype inner_of(MPI_Datatype type, const struct making *making)
{
    int number;
    MPI_Aint address;
    MPI_Count count;
    MPI_Datatype inner;
    PMPI_Type_get_contents_c(type, making->integers, making->addresses, making->counts, making->types, &number,
                             &address, &count, &inner);
    return inner;
}
#else
struct making {
    int integers, addresses, counts, types, combiner;
};

static struct making making_of(MPI_Datatype type)
{
    struct making making = { 0 };
    PMPI_Type_get_envelope(type, &making.integers, &making.addresses, &making.types, &making.combiner);
    return making;
}

static MPI_Datatype inner_of(MPI_Datatype type, const struct making *making)
{
    int number;
    MPI_Aint address;
    MPI_Datatype inner;
    PMPI_Type_get_contents(type, making->integers, making->addresses, making->types, &number, &address, &inner);
    return inner;
}
#endif

/* Whether its elements are one piece of data each, without gaps: then a message is what lies in the buffer. */
static bool is_dense(MPI_Datatype type)
{
    struct making making = making_of(type);
    if (making.combiner == MPI_COMBINER_NAMED) {
        int size;
        MPI_Aint low, extent;
        PMPI_Type_size(type, &size);
        PMPI_Type_get_extent(type, &low, &extent);
        return low == 0 && extent == size;
    }
    if ((making.combiner != MPI_COMBINER_DUP && making.combiner != MPI_COMBINER_CONTIGUOUS) ||
        making.integers + making.counts > 1 || making.types != 1)
        return false;
    MPI_Datatype inner = inner_of(type, &making);
    bool result = is_dense(inner);
    if (making_of(inner).combiner != MPI_COMBINER_NAMED)
        PMPI_Type_free(&inner);
    return result;
}

static int forget(MPI_Datatype type, int key, void *attribute, void *unused)
{
    struct type_facts *facts = attribute;
    (void)key, (void)unused;
    if (facts->type == type)
        facts->is_known = false;
    return MPI_SUCCESS;
}

/* When a type is freed, another one may get its handle. The MPI frees types, too: those of sections of arrays, in
 * Fortran 2008. So what is known of a type ends as an attribute of it does. */
static void forget_with(MPI_Datatype type, struct type_facts *facts)
{
    static int key = MPI_KEYVAL_INVALID;
    if (key == MPI_KEYVAL_INVALID)
        PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &key, NULL);
    PMPI_Type_set_attr(type, key, facts);
}

static const struct type_facts *facts_of(MPI_Datatype type)
{
    struct type_facts *facts = place_of(type);
    if (facts->is_known && facts->type == type)
        return facts;
    MPI_Count size;
    MPI_Aint low;
    bool is_derived = making_of(type).combiner != MPI_COMBINER_NAMED;
    PMPI_Type_size_x(type, &size);
    if (is_derived)
        forget_with(type, facts);
    *facts = (struct type_facts){ .type = type,
                                  .size = (size_t)size,
                                  .is_known = true,
                                  .is_dense = is_dense(type),
                                  .is_derived = is_derived };
    PMPI_Type_get_extent(type, &low, &facts->extent);
    return facts;
}

bool is_derived(MPI_Datatype type)
{
    return facts_of(type)->is_derived;
}

bool is_one_piece(MPI_Datatype type)
{
    return facts_of(type)->is_dense;
}

MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint low, extent;
    PMPI_Type_get_extent(type, &low, &extent);
    return extent;
}

size_t message_bytes(size_t count, MPI_Datatype type)
{
    return count * facts_of(type)->size;
}

/* Elements that so many bytes begin. */
static size_t elements(const struct type_facts *facts, size_t bytes)
{
    return facts->size ? (bytes + facts->size - 1) / facts->size : 0;
}

/* MPICH does not pack what begins at MPI_BOTTOM, which is a null pointer. So the type begins before the buffer, by as
 * much as the buffer is moved. */
static MPI_Datatype moved_type(MPI_Datatype type, MPI_Aint place)
{
    MPI_Datatype moved;
    MPI_Aint back = -place;
    PMPI_Type_create_hindexed(1, &(int){ 1 }, &back, type, &moved);
    PMPI_Type_commit(&moved);
    return moved;
}

/* So many elements of so many bytes between a buffer and one piece of memory. */
#if MPI_VERSION >= 4
static int carry_some(void *buffer, int count, MPI_Datatype type, void *piece, size_t bytes, bool is_packing)
{
    MPI_Count position = 0, all = (MPI_Count)bytes;
    return is_packing ? PMPI_Pack_c(buffer, count, type, piece, all, &position, MPI_COMM_SELF)
                      : PMPI_Unpack_c(piece, all, &position, buffer, count, type, MPI_COMM_SELF);
}
#else
static int carry_some(void *buffer, int count, MPI_Datatype type, void *piece, size_t bytes, bool is_packing)
{
    int position = 0;
    if (bytes > INT_MAX)
        stop_job("an element of %zu bytes with gaps, which this MPI cannot pack", bytes);
    return is_packing ? PMPI_Pack(buffer, count, type, piece, (int)bytes, &position, MPI_COMM_SELF)
                      : PMPI_Unpack(piece, (int)bytes, &position, buffer, count, type, MPI_COMM_SELF);
}
#endif

/* The same in pieces, whatever their number. */
static void carry(const struct type_facts *facts, char *buffer, size_t count, char *piece, bool is_packing)
{
    size_t most = PIECE / facts->size ? PIECE / facts->size : 1;
    MPI_Datatype type = facts->type;
    bool is_moved = !buffer;
    if (is_moved) {
        buffer = (char *)(uintptr_t)PIECE;
        type = moved_type(type, PIECE);
    }
    while (count) {
        int now = (int)(count < most ? count : most);
        size_t bytes = facts->size * (size_t)now;
        if (carry_some(buffer, now, type, piece, bytes, is_packing) != MPI_SUCCESS)
            stop_job("a message of a type that the MPI cannot pack");
        buffer += facts->extent * now;
        piece += bytes;
        count -= (size_t)now;
    }
    if (is_moved)
        PMPI_Type_free(&type);
}

struct packed pack(const void *buffer, size_t bytes, MPI_Datatype type)
{
    const struct type_facts *facts = facts_of(type);
    if (facts->is_dense || !bytes)
        return (struct packed){ .data = buffer, .bytes = bytes };
    size_t count = elements(facts, bytes);
    char *copy = malloc(count * facts->size);
    if (!copy)
        stop_job("no memory for a message of %zu bytes", bytes);
    carry(facts, (char *)buffer, count, copy, true);
    return (struct packed){ .data = copy, .bytes = bytes, .copy = copy };
}

void release_packed(struct packed *packed)
{
    free(packed->copy);
    packed->copy = NULL;
}

void unpack(void *buffer, const void *data, size_t bytes, MPI_Datatype type)
{
    const struct type_facts *facts = facts_of(type);
    if (facts->is_dense) {
        memcpy(buffer, data, bytes);
        return;
    }
    /* What follows a message that ends within an element stays as it is. */
    size_t count = elements(facts, bytes);
    struct packed all = pack(buffer, count * facts->size, type);
    if (!bytes)
        return;
    memcpy(all.copy, data, bytes);
    carry(facts, buffer, count, all.copy, false);
    release_packed(&all);
}

struct digest digest_of(const void *data, size_t bytes)
{
    struct digest digest = { .bytes = bytes };
    hash_bytes(data, bytes, &digest.low, &digest.high);
    return digest;
}

#define ENVELOPE_HEAD offsetof(struct envelope, content)

size_t envelope_room(size_t bytes, size_t most)
{
    size_t content = bytes < most ? bytes : most;
    if (content < sizeof ((struct envelope *)NULL)->content.hash)
        content = sizeof ((struct envelope *)NULL)->content.hash;
    size_t room = (ENVELOPE_HEAD + content + 7) / 8 * 8;
    return room < INT_MAX ? room : INT_MAX / 8 * 8;
}

size_t fill_envelope(struct envelope *envelope, size_t most, const struct packed *packed, const struct digest *digest)
{
    envelope->bytes = packed->bytes;
    if (packed->bytes <= most) {
        if (packed->bytes)
            memcpy(envelope->content.data, packed->data, packed->bytes);
        return ENVELOPE_HEAD + packed->bytes;
    }
    struct digest known = digest ? *digest : digest_of(packed->data, packed->bytes);
    envelope->content.hash.low = known.low;
    envelope->content.hash.high = known.high;
    return ENVELOPE_HEAD + sizeof envelope->content.hash;
}

/* An envelope may be wrong as well: its length is not believed. */
bool is_whole(const struct envelope *envelope, size_t came)
{
    return came >= ENVELOPE_HEAD && came - ENVELOPE_HEAD == envelope->bytes;
}

struct digest digest_in(const struct envelope *envelope, size_t came, const struct packed *packed,
                        const struct digest *mine)
{
    if (!is_whole(envelope, came))
        return (struct digest){ .bytes = envelope->bytes,
                                .low = envelope->content.hash.low,
                                .high = envelope->content.hash.high };
    if (envelope->bytes == packed->bytes &&
        (!packed->bytes || !memcmp(envelope->content.data, packed->data, packed->bytes)))
        return *mine;
    return digest_of(envelope->content.data, envelope->bytes);
}

long first_difference(const struct envelope *envelope, size_t came, const struct packed *packed)
{
    size_t both = envelope->bytes < packed->bytes ? envelope->bytes : packed->bytes, at = 0;
    if (!is_whole(envelope, came))
        return -1;
    while (at < both && envelope->content.data[at] == ((const unsigned char *)packed->data)[at])
        at++;
    return (long)at;
}
