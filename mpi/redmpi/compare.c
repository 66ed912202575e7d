/* See compare.h. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "connections.h"
#include "events.h"
#include "leaving.h"
#include "log.h"
#include "timesteps.h"

const struct digest too_long = { .bytes = UINT64_MAX };

struct region region_of(const void *buffer, size_t count, MPI_Datatype type)
{
    struct region region = { .buffer = (void *)buffer, .type = type };
    region.bytes = type == MPI_DATATYPE_NULL ? 0 : message_bytes(count, type);
    return region;
}

void keep_type_of(struct region *region)
{
    if (region->bytes && is_derived(region->type))
        PMPI_Type_dup(region->type, &region->type);
}

void drop_type_of(struct region *region)
{
    if (region->bytes && is_derived(region->type))
        PMPI_Type_free(&region->type);
}

struct packed pack_regions(const struct region *regions, int count)
{
    if (count == 1)
        return pack(regions->buffer, regions->bytes, regions->type);
    struct packed all = { 0 };
    for (int i = 0; i < count; i++)
        all.bytes += regions[i].bytes;
    char *next = all.copy = malloc(all.bytes ? all.bytes : 1);
    if (!all.copy)
        stop_job("no memory for %zu bytes that were received", all.bytes);
    all.data = all.copy;
    for (int i = 0; i < count; i++) {
        struct packed one = pack(regions[i].buffer, regions[i].bytes, regions[i].type);
        if (one.bytes)
            memcpy(next, one.data, one.bytes);
        next += one.bytes;
        release_packed(&one);
    }
    return all;
}

/* This replica expects another length than the others: an error has changed what it does. If teams may be dropped, its
 * own is. */
static _Noreturn void part_with_others(void)
{
    leave_with_others(OUT_BY_ERROR, MPI_ERR_TRUNCATE);
    leave_path("replica %d of rank %d expects another length than the others: an error has changed what it does",
               teams.replica, teams.rank);
}

static size_t room_of(const struct region *regions, int count, const struct testimony *testimony)
{
    size_t room = 0;
    for (int i = 0; i < count; i++)
        room += regions[i].bytes;
    return testimony->room > room ? testimony->room : room;
}

/* Writes the right bytes where the wrong ones were. Only a message may have another length than it had. */
static void unpack_all(struct region *regions, int count, const char *data, size_t bytes, size_t room)
{
    if (count == 1 ? bytes > room : bytes != room)
        part_with_others();
    if (count == 1)
        regions->bytes = bytes;
    for (int i = 0; i < count; i++) {
        unpack(regions[i].buffer, data, regions[i].bytes, regions[i].type);
        data += regions[i].bytes;
    }
}

/* Where the message and what is known of another one differ first; -1 if that is not known. */
static long difference(const struct packed *packed, const struct testimony *testimony, const struct verdict *verdict)
{
    const unsigned char *right = verdict->replacement, *here = packed->data;
    if (right) {
        size_t both = verdict->bytes < packed->bytes ? verdict->bytes : packed->bytes, at = 0;
        while (at < both && right[at] == here[at])
            at++;
        return (long)at;
    }
    for (int i = 0; i < testimony->count; i++) {
        long at = first_difference(testimony->envelopes[i], testimony->came[i], packed);
        if (at >= 0 && ((size_t)at < packed->bytes || testimony->envelopes[i]->bytes != packed->bytes))
            return at;
    }
    return -1;
}

static struct verdict ask_others(const struct packed *packed, const struct digest *mine,
                                 const struct testimony *testimony)
{
    struct digest others[MOST_COMPARED];
    for (int i = 0; i < testimony->count; i++) {
        others[i] = digest_in(testimony->envelopes[i], testimony->came[i], packed, mine);
        if (testimony->room && others[i].bytes > testimony->room)
            others[i] = too_long;
    }
    return agree(packed->data, mine, others, testimony->teams, testimony->count);
}

static struct verdict count_votes(const struct packed *packed, const struct digest *mine,
                                  const struct testimony *testimony)
{
    static const struct copy without_room = { .data = NULL, .bytes = SIZE_MAX, .is_known = true };
    int of[MOST_REPLICAS] = { teams.replica };
    struct copy copies[MOST_REPLICAS] = { { .data = packed->data, .bytes = packed->bytes, .is_known = true } };
    if (mine->bytes == too_long.bytes)
        copies[0] = without_room;
    for (int i = 0; i < testimony->count; i++) {
        const struct envelope *envelope = testimony->envelopes[i];
        of[i + 1] = testimony->teams[i];
        bool has_room = testimony->came[i] && envelope->bytes <= testimony->room;
        copies[i + 1] = has_room ? (struct copy){ .data = envelope->content.data,
                                                  .bytes = envelope->bytes,
                                                  .is_known = is_whole(envelope, testimony->came[i]) }
                                 : without_room;
    }
    return take_majority(copies, of, testimony->count + 1);
}

size_t compare(struct region *regions, int count, struct packed *packed, const struct digest *mine,
               const struct testimony *testimony, const struct origin *origin, bool *was_replaced)
{
    size_t bytes = packed->bytes;
    if (compares_later()) {
        log_received(mine, origin);
        release_packed(packed);
        return bytes;
    }
    struct verdict verdict = testimony->is_complete ? count_votes(packed, mine, testimony)
                                                    : ask_others(packed, mine, testimony);
    if (verdict.differed) {
        tell("mismatch %s comm %d peer %d sender %d tag %d bytes %zu offset %ld number %llu step %llu wrong %#x %s",
             origin->what, origin->shadow->number, origin->peer, sender_of(origin), origin->tag, packed->bytes,
             difference(packed, testimony, &verdict), (unsigned long long)verdict.number,
             (unsigned long long)timestep(), verdict.wrong,
             verdict.replacement   ? "replaced"
             : verdict.is_accepted ? "right"
                                   : "undecided");
        if (!verdict.is_accepted)
            no_majority(origin->what);
        if (verdict.replacement) {
            bytes = verdict.bytes;
            unpack_all(regions, count, verdict.replacement, bytes, room_of(regions, count, testimony));
            free(verdict.replacement);
        }
    }
    if (was_replaced && verdict.replacement)
        *was_replaced = true;
    release_packed(packed);
    return bytes;
}
