/* See partitions.h. */
#include "partitions.h"

#include <stdlib.h>

#include "bindings.h"
#include "decisions.h"
#include "digest.h"
#include "events.h"
#include "history.h"
#include "messages.h"
#include "receives.h"
#include "teams.h"

/* What the sender tells the receiver. */
struct letter {
    int64_t parts, bytes; /* of each */
    int64_t first_tag;
};

struct parts {
    bool is_receive;
    int count;    /* of the program's parts */
    size_t bytes; /* of each */
    struct letter letter;
    MPI_Request posted; /* the letter */
    /* Of the sender. */
    MPI_Request *sends;
    bool *are_ready;
    int ready;
    /* Of the receiver, since the letter has come. */
    bool is_known;
    struct request **messages;
    void *landing; /* where they arrive; null: in the buffer */
    struct elements each;
    int seen; /* messages that are there, from the first one on */
    struct request *request; /* null: the program has freed it */
    struct parts *next; /* of senders; of receivers whose letter has not come */
};

static struct parts *senders, *strangers;

bool await_letters(void)
{
    return strangers;
}

static void *room_for(size_t bytes)
{
    void *room = calloc(1, bytes ? bytes : 1);
    if (!room)
        stop_job("no memory for a message in parts");
    return room;
}

static struct request *request_for(bool is_receive, const void *buffer, int count, MPI_Count elements,
                                   MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    struct elements each = few(elements, type);
    struct request *request = wanted(REQUEST_PARTS, buffer, each.count, each.type, peer, tag, comm);
    forget_few(&each);
    struct parts *parts = room_for(sizeof *parts);
    *parts = (struct parts){ .is_receive = is_receive,
                             .count = peer == MPI_PROC_NULL ? 0 : count,
                             .bytes = message_bytes((size_t)elements, type),
                             .posted = MPI_REQUEST_NULL,
                             .is_known = peer == MPI_PROC_NULL,
                             .request = request };
    request->is_persistent = true;
    request->parts = parts;
    return request;
}

/* The rank of the peer in its own team, on the communicator of the digests: between members of one team, nothing else
 * goes there. */
static int native_peer(const struct request *request)
{
    return shadow_rank(request->shadow, request->wanted_peer, teams.replica);
}

/* The peer among all of the team. */
static int peer_in_team(const struct request *request)
{
    const struct shadow *shadow = request->shadow;
    return shadow->ranks[shadow->first_peer + request->wanted_peer];
}

static int most_tags(void)
{
    int *most, is_there;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &is_there);
    return is_there ? *most : 32767;
}

/* Whether a sender that goes on has some of these tags; it returns the first one after its own then. */
static int64_t end_of_overlap(int64_t first, int count)
{
    for (const struct parts *one = senders; one; one = one->next) {
        if (first < one->letter.first_tag + one->count && one->letter.first_tag < first + count)
            return one->letter.first_tag + one->count;
    }
    return 0;
}

/* Tags that no other sender of this process has. They are used again as late as possible: a receiver may be behind. */
static int64_t new_tags(int count)
{
    static int64_t next;
    for (int turns = 0; turns < 2;) {
        if (next + count - 1 > most_tags()) {
            next = 0;
            turns++;
        }
        int64_t after = end_of_overlap(next, count);
        if (!after) {
            int64_t first = next;
            next += count;
            return first;
        }
        next = after;
    }
    stop_job("more parts of messages than the MPI has tags");
}

static void begin_sender(struct request *request)
{
    struct parts *parts = request->parts;
    parts->sends = room_for(sizeof *parts->sends * (size_t)parts->count);
    parts->are_ready = room_for(sizeof *parts->are_ready * (size_t)parts->count);
    for (int i = 0; i < parts->count; i++)
        parts->sends[i] = MPI_REQUEST_NULL;
    if (!parts->count)
        return;
    parts->letter = (struct letter){ .parts = parts->count,
                                     .bytes = (int64_t)parts->bytes,
                                     .first_tag = new_tags(parts->count) };
    parts->next = senders;
    senders = parts;
    PMPI_Isend(&parts->letter, sizeof parts->letter, MPI_BYTE, native_peer(request), request->wanted_tag,
               request->shadow->comm, &parts->posted);
}

static void begin_receiver(struct request *request)
{
    struct parts *parts = request->parts, **end = &strangers;
    if (!parts->count)
        return;
    PMPI_Irecv(&parts->letter, sizeof parts->letter, MPI_BYTE, native_peer(request), request->wanted_tag,
               request->shadow->comm, &parts->posted);
    while (*end)
        end = &(*end)->next;
    *end = parts;
}

/* The record of each message. It arrives where it belongs if the type leaves no gaps. */
static void begin_messages(struct parts *parts)
{
    const struct request *request = parts->request;
    const struct letter *letter = &parts->letter;
    size_t all = (size_t)parts->count * parts->bytes, one = (size_t)letter->bytes;
    if ((size_t)letter->parts * one > all)
        stop_job("a message in parts of %zu bytes, where %zu are expected", (size_t)letter->parts * one, all);
    char *place = request->buffer;
    if (!is_one_piece(request->type))
        place = parts->landing = room_for(all);
    parts->each = few(letter->bytes, MPI_BYTE);
    parts->messages = room_for(sizeof *parts->messages * (size_t)letter->parts);
    for (int64_t i = 0; i < letter->parts; i++) {
        parts->messages[i] = wanted(REQUEST_RECEIVE, place + (size_t)i * one, parts->each.count, parts->each.type,
                                    peer_in_team(request), (int)(letter->first_tag + i), teams.parts);
        parts->messages[i]->whole = request;
    }
    parts->is_known = true;
}

static void post_messages(struct parts *parts)
{
    for (int64_t i = 0; i < parts->letter.parts; i++) {
        if (post_known_receive(parts->messages[i]) != MPI_SUCCESS)
            stop_job("a message in parts cannot be received");
    }
}

void advance_parts(void)
{
    for (struct parts **link = &strangers; *link;) {
        struct parts *parts = *link;
        int is_here;
        PMPI_Test(&parts->posted, &is_here, MPI_STATUS_IGNORE);
        if (!is_here) {
            link = &parts->next;
            continue;
        }
        *link = parts->next;
        if (!parts->request) {
            free(parts);
            continue;
        }
        begin_messages(parts);
        if (parts->request->is_active)
            post_messages(parts);
    }
}

int start_parts(struct request *request)
{
    struct parts *parts = request->parts;
    request->is_active = true;
    parts->seen = parts->ready = 0;
    if (!parts->is_receive) {
        for (int i = 0; i < parts->count; i++)
            parts->are_ready[i] = false;
        return MPI_SUCCESS;
    }
    record_step(STEP_RECEIVE, (int64_t)request->shadow->number << 32 | (uint32_t)request->wanted_peer,
                request->wanted_tag, (int64_t)parts->bytes * parts->count);
    if (parts->is_known)
        post_messages(parts);
    else
        advance_parts();
    return MPI_SUCCESS;
}

/* A part of the program's buffer. */
static void *part_at(const struct request *request, int part)
{
    return (char *)request->buffer + (MPI_Aint)part * request->count * extent_of(request->type);
}

int send_part(int part, MPI_Request handle)
{
    struct request *request = request_of(handle);
    struct parts *parts = request ? request->parts : NULL;
    if (!parts || parts->is_receive || !request->is_active)
        return MPI_ERR_REQUEST;
    if (!parts->count)
        return MPI_SUCCESS;
    if (part < 0 || part >= parts->count || parts->are_ready[part])
        return MPI_ERR_ARG;
    parts->are_ready[part] = true;
    parts->ready++;
    return begin_send(SEND_STANDARD, part_at(request, part), request->count, request->type, peer_in_team(request),
                      (int)(parts->letter.first_tag + part), teams.parts, &parts->sends[part]);
}

/* The messages of which a part of the receiver has bytes: from the first one to before `end`. */
static int64_t messages_of(const struct parts *parts, int part, int64_t *end)
{
    const struct letter *letter = &parts->letter;
    int64_t bytes = (int64_t)parts->bytes, first = letter->bytes ? part * bytes / letter->bytes : 0;
    *end = letter->bytes && bytes ? ((part + 1) * bytes - 1) / letter->bytes + 1 : first;
    if (*end > letter->parts)
        *end = letter->parts;
    return first;
}

static bool is_message_here(struct request *message)
{
    return !message->is_active || receive_is_here(message);
}

static bool is_part_here(struct parts *parts, int part)
{
    int64_t end, i = parts->is_known ? messages_of(parts, part, &end) : 0;
    while (parts->is_known && i < end && is_message_here(parts->messages[i]))
        i++;
    return parts->is_known && i >= end;
}

bool parts_are_done(struct request *request)
{
    struct parts *parts = request->parts;
    int is_there = true;
    if (!parts->is_known && parts->is_receive)
        return false;
    if (parts->is_receive) {
        while (parts->seen < parts->letter.parts && is_message_here(parts->messages[parts->seen]))
            parts->seen++;
        return parts->seen >= parts->letter.parts;
    }
    for (; parts->ready == parts->count && parts->seen < parts->count && is_there; parts->seen += is_there)
        PMPI_Test(&parts->sends[parts->seen], &is_there, MPI_STATUS_IGNORE);
    return parts->ready == parts->count && parts->seen == parts->count;
}

struct arrival {
    struct parts *parts;
    int part;
};

static bool has_arrived(void *what, struct decision *decision)
{
    const struct arrival *arrival = what;
    (void)decision;
    advance_receives();
    return is_part_here(arrival->parts, arrival->part);
}

static bool has_arrived_here(void *what, const struct decision *decision)
{
    (void)decision;
    return has_arrived(what, NULL);
}

static void wait_for_letter(struct parts *parts)
{
    for (unsigned looks = 0; !parts->is_known; looks++)
        wait_on(looks);
}

/* Compares messages that the program has not got yet; in their order, which is the same for all replicas. */
static void take_messages(struct request *request, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++) {
        struct request *message = request->parts->messages[i];
        int result = message->is_active ? finish_receive(message, MPI_STATUS_IGNORE) : MPI_SUCCESS;
        if (result != MPI_SUCCESS)
            request->result = result;
    }
}

static void take_part(struct request *request, int part)
{
    struct parts *parts = request->parts;
    int64_t end, first;
    wait_for_letter(parts);
    first = messages_of(parts, part, &end);
    take_messages(request, first, end);
    if (parts->landing && parts->bytes)
        unpack(part_at(request, part), (char *)parts->landing + (size_t)part * parts->bytes, parts->bytes,
               request->type);
}

static void end_receiver(struct request *request)
{
    struct parts *parts = request->parts;
    MPI_Status *status = &request->status;
    wait_for_letter(parts);
    take_messages(request, 0, parts->letter.parts);
    for (int i = 0; parts->landing && i < parts->count; i++)
        take_part(request, i);
    status->MPI_SOURCE = request->wanted_peer;
    status->MPI_TAG = request->wanted_peer == MPI_PROC_NULL ? MPI_ANY_TAG : request->wanted_tag;
    PMPI_Status_set_cancelled(status, false);
    PMPI_Status_set_elements_x(status, MPI_BYTE, parts->letter.parts * parts->letter.bytes);
}

static void end_sender(struct parts *parts)
{
    for (unsigned looks = 0; parts->ready < parts->count; looks++)
        wait_on(looks);
    for (int i = 0; i < parts->count; i++)
        complete(&parts->sends[i], MPI_STATUS_IGNORE);
}

int end_parts(struct request *request)
{
    request->result = MPI_SUCCESS;
    if (request->parts->is_receive)
        end_receiver(request);
    else
        end_sender(request->parts);
    return request->result;
}

static void unlist(const struct parts *parts)
{
    struct parts **link = &senders;
    while (*link && *link != parts)
        link = &(*link)->next;
    if (*link)
        *link = parts->next;
}

void forget_parts(struct request *request)
{
    struct parts *parts = request->parts;
    /* The letter is still to come, and must not be taken for that of another receive. */
    if (parts->is_receive && !parts->is_known) {
        parts->request = NULL;
        return;
    }
    if (!parts->is_receive)
        unlist(parts);
    complete(&parts->posted, MPI_STATUS_IGNORE);
    for (int64_t i = 0; parts->messages && i < parts->letter.parts; i++)
        free_request(parts->messages[i]);
    forget_few(&parts->each);
    free(parts->messages);
    free(parts->landing);
    free(parts->sends);
    free(parts->are_ready);
    free(parts);
}

MPI_Request begin_parts(bool is_receive, const void *buffer, int count, MPI_Count elements, MPI_Datatype type, int peer,
                        int tag, MPI_Comm comm)
{
    struct request *request = request_for(is_receive, buffer, count, elements, type, peer, tag, comm);
    if (is_receive)
        begin_receiver(request);
    else
        begin_sender(request);
    return handle_of(request);
}

int part_has_come(MPI_Request handle, int part, int *has_come)
{
    struct request *request = request_of(handle);
    struct parts *parts = request ? request->parts : NULL;
    struct arrival arrival = { .parts = parts, .part = part };
    struct decision unused;
    if (!parts || !parts->is_receive)
        return MPI_ERR_REQUEST;
    if (parts->count && (part < 0 || part >= parts->count))
        return MPI_ERR_ARG;
    *has_come = !request->is_active || request->is_checked || !parts->count;
    if (*has_come)
        return MPI_SUCCESS;
    *has_come = decide(&(struct choice){ .kind = DECISION_FOUND, .look = has_arrived, .is_ready = has_arrived_here,
                                         .what = &arrival }, &unused);
    if (*has_come)
        take_part(request, part);
    return request->result;
}

#if HAS_PARTITIONS
static bool is_valid(int count, MPI_Count elements, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    return count >= 0 && can_be_received(needed_shadow(comm), elements < 0 ? -1 : 0, type, peer, tag) &&
           peer != MPI_ANY_SOURCE && tag != MPI_ANY_TAG;
}

int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                   MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    if (teams.is_quiet || !is_valid(partitions, count, datatype, dest, tag, real_comm(comm)))
        return PMPI_Psend_init(buf, partitions, count, datatype, dest, tag, comm, info, request);
    *request = begin_parts(false, buf, partitions, count, datatype, dest, tag, real_comm(comm));
    return MPI_SUCCESS;
}

int MPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    if (teams.is_quiet || !is_valid(partitions, count, datatype, source, tag, real_comm(comm)))
        return PMPI_Precv_init(buf, partitions, count, datatype, source, tag, comm, info, request);
    *request = begin_parts(true, buf, partitions, count, datatype, source, tag, real_comm(comm));
    return MPI_SUCCESS;
}

int MPI_Pready(int partition, MPI_Request request)
{
    return teams.is_quiet ? PMPI_Pready(partition, request) : send_part(partition, request);
}

int MPI_Pready_range(int partition_low, int partition_high, MPI_Request request)
{
    int result = MPI_SUCCESS;
    for (int part = partition_low; part <= partition_high && result == MPI_SUCCESS; part++)
        result = MPI_Pready(part, request);
    return result;
}

/* MPIs differ in whether the list is constant. */
int rampart_pready_list(int length, const int partitions[], MPI_Request request)
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < length && result == MPI_SUCCESS; i++)
        result = MPI_Pready(partitions[i], request);
    return result;
}
__typeof__(MPI_Pready_list) MPI_Pready_list __attribute__((alias("rampart_pready_list")));

int MPI_Parrived(MPI_Request request, int partition, int *flag)
{
    return teams.is_quiet ? PMPI_Parrived(request, partition, flag) : part_has_come(request, partition, flag);
}
#endif
