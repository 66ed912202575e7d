/* The program's own messages: sends and receives.
 *
 * Each message goes within the team, and a digest or a copy of it to the next teams on the ring [Fiala15, 3.3.2, figure
 * 3.4].
 */
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bindings.h"
#include "collectives.h"
#include "decisions.h"
#include "drops.h"
#include "envelopes.h"
#include "events.h"
#include "history.h"
#include "injector.h"
#include "log.h"
#include "messages.h"
#include "partitions.h"
#include "protocol.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* Whether the MPI will take this. All else it is to refuse as it does without us. */
static bool is_valid(const struct shadow *shadow, int count, MPI_Datatype type, int peer, int tag)
{
    return count >= 0 && type != MPI_DATATYPE_NULL && peer >= 0 && peer < shadow->peers && tag >= 0;
}

/* A buffer for the envelope that goes to other teams. */
static struct envelope_place *place_for(size_t bytes)
{
    if (!sends_copies())
        return next_envelope(teams_heard());
    size_t room = envelope_room(bytes, most_whole());
    if (room < offsetof(struct envelope, content) + bytes)
        stop_job("a message of %zu bytes, which is too long for the protocol all-to-all", bytes);
    return new_envelope(room, teams_heard());
}

/* Notes a message that is to be compared, and changes it if a flip is due. */
static bool announce(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    if (peer == MPI_PROC_NULL)
        return false;
    const struct shadow *shadow = needed_shadow(comm);
    if (!is_valid(shadow, count, type, peer, tag))
        return false;
    stay_in();
    size_t bytes = message_bytes((size_t)count, type);
    record_step(STEP_SEND, (int64_t)shadow->number << 32 | peer, tag, (int64_t)bytes);
    inject(buffer, bytes, type, peer, tag);
    if (compares_later())
        count_sent(bytes, 0);
    return !compares_later();
}

/* Tells other teams of a message. */
static void send_digests(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    const struct shadow *shadow = needed_shadow(comm);
    size_t bytes = message_bytes((size_t)count, type);
    struct packed packed = pack(buffer, bytes, type);
    struct envelope_place *place = place_for(bytes);
    size_t length = fill_envelope(place->envelope, most_whole(), &packed, NULL);
    for (int i = 0; i < place->count; i++) {
        place->sends[i] = MPI_REQUEST_NULL;
        if (!is_out(team_after(i + 1)))
            PMPI_Isend(place->envelope, (int)length, MPI_BYTE, shadow_rank(shadow, peer, team_after(i + 1)), tag,
                       shadow->comm, &place->sends[i]);
    }
    count_sent(bytes, length);
    release_packed(&packed);
}

static int send_data(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                     MPI_Comm comm, MPI_Request *request)
{
    switch (mode) {
    case SEND_SYNCHRONOUS:
        return PMPI_Issend(buffer, count, type, peer, tag, comm, request);
    case SEND_BUFFERED:
        return PMPI_Ibsend(buffer, count, type, peer, tag, comm, request);
    case SEND_READY: /* the receive that the program posted may be held back */
    case SEND_STANDARD:
        break;
    }
    return PMPI_Isend(buffer, count, type, peer, tag, comm, request);
}

/* The data goes first: a long message is on its way while its hash is computed. */
static int start_send(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm, MPI_Request *request)
{
    bool is_compared = announce((void *)buffer, count, type, peer, tag, comm);
    int result = send_data(mode, buffer, count, type, peer, tag, comm, request);
    if (is_compared)
        send_digests(buffer, count, type, peer, tag, comm);
    return result;
}

int begin_send(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    change_call(&count, &peer, &tag, needed_shadow(comm)->peers);
    return start_send(mode, buffer, count, type, peer, tag, comm, request);
}

/* Bytes up to which the hash of a message takes next to no time. */
#define SHORT (1 << 14)

/* Also what the MPI is to refuse. */
static bool is_short(int count, MPI_Datatype type)
{
    return count <= 0 || type == MPI_DATATYPE_NULL || message_bytes((size_t)count, type) <= SHORT;
}

/* A short send that waits may do so in the MPI, unless receives need us meanwhile. */
static int send_alone(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm)
{
    if (mode == SEND_STANDARD && !receives_need_us() && !may_drop() && is_short(count, type)) {
        if (announce((void *)buffer, count, type, peer, tag, comm))
            send_digests(buffer, count, type, peer, tag, comm);
        return PMPI_Send(buffer, count, type, peer, tag, comm);
    }
    MPI_Request request;
    int result = start_send(mode, buffer, count, type, peer, tag, comm, &request);
    return result == MPI_SUCCESS ? complete(&request, MPI_STATUS_IGNORE) : result;
}

static int send_now(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                    MPI_Comm comm)
{
    change_call(&count, &peer, &tag, needed_shadow(comm)->peers);
    flush_decisions();
    begin_wait("MPI_Send", shadow_of(comm), peer, tag);
    int result = send_alone(mode, buffer, count, type, peer, tag, comm);
    end_wait();
    return result;
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return teams.is_quiet ? PMPI_Send(buf, count, datatype, dest, tag, comm)
                          : send_now(SEND_STANDARD, buf, count, datatype, dest, tag, real_comm(comm));
}

int MPI_Ssend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return teams.is_quiet ? PMPI_Ssend(buf, count, datatype, dest, tag, comm)
                          : send_now(SEND_SYNCHRONOUS, buf, count, datatype, dest, tag, real_comm(comm));
}

int MPI_Rsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return teams.is_quiet ? PMPI_Rsend(buf, count, datatype, dest, tag, comm)
                          : send_now(SEND_READY, buf, count, datatype, dest, tag, real_comm(comm));
}

int MPI_Bsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    if (!teams.is_quiet) {
        comm = real_comm(comm);
        change_call(&count, &dest, &tag, needed_shadow(comm)->peers);
        if (announce((void *)buf, count, datatype, dest, tag, comm))
            send_digests(buf, count, datatype, dest, tag, comm);
    }
    return PMPI_Bsend(buf, count, datatype, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Isend(buf, count, datatype, dest, tag, comm, request)
                          : begin_send(SEND_STANDARD, buf, count, datatype, dest, tag, real_comm(comm), request);
}

int MPI_Issend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Issend(buf, count, datatype, dest, tag, comm, request)
                          : begin_send(SEND_SYNCHRONOUS, buf, count, datatype, dest, tag, real_comm(comm), request);
}

int MPI_Irsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Irsend(buf, count, datatype, dest, tag, comm, request)
                          : begin_send(SEND_READY, buf, count, datatype, dest, tag, real_comm(comm), request);
}

int MPI_Ibsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Ibsend(buf, count, datatype, dest, tag, comm, request)
                          : begin_send(SEND_BUFFERED, buf, count, datatype, dest, tag, real_comm(comm), request);
}

struct request *wanted(enum request_kind kind, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                       MPI_Comm comm)
{
    struct request *request = new_request(kind);
    request->buffer = (void *)buffer;
    request->count = count;
    keep_type(request, type);
    request->wanted_peer = peer;
    request->wanted_tag = tag;
    request->comm = comm;
    request->shadow = shadow_hold(needed_shadow(comm));
    return request;
}

bool can_be_received(const struct shadow *shadow, int count, MPI_Datatype type, int source, int tag)
{
    return is_valid(shadow, count, type, source == MPI_ANY_SOURCE || source == MPI_PROC_NULL ? 0 : source,
                    tag == MPI_ANY_TAG ? 0 : tag);
}

/* The record of a receive; null if the MPI is to refuse it. */
static struct request *wanted_receive(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm)
{
    return can_be_received(needed_shadow(comm), count, type, source, tag)
               ? wanted(REQUEST_RECEIVE, buffer, count, type, source, tag, comm)
               : NULL;
}

static int receive_later(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                         MPI_Request *handle)
{
    struct request *request = wanted_receive(buffer, count, type, source, tag, comm);
    if (!request)
        return PMPI_Irecv(buffer, count, type, source, tag, comm, handle);
    *handle = handle_of(request);
    return post_receive(request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Irecv(buf, count, datatype, source, tag, comm, request)
                          : receive_later(buf, count, datatype, source, tag, real_comm(comm), request);
}

static int receive_now(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                       MPI_Status *status)
{
    struct request *request = wanted_receive(buffer, count, type, source, tag, comm);
    if (!request)
        return PMPI_Recv(buffer, count, type, source, tag, comm, status);
    request->is_blocking = true;
    int result = post_receive(request);
    if (result == MPI_SUCCESS) {
        result = finish_receive(request, status);
        free_request(request);
    }
    return result;
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    return teams.is_quiet ? PMPI_Recv(buf, count, datatype, source, tag, comm, status)
                          : receive_now(buf, count, datatype, source, tag, real_comm(comm), status);
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf,
                 int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    if (teams.is_quiet)
        return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
                             comm, status);
    MPI_Request received, sent;
    int result = MPI_Irecv(recvbuf, recvcount, recvtype, source, recvtag, comm, &received);
    if (result != MPI_SUCCESS)
        return result;
    result = MPI_Isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, &sent);
    if (result != MPI_SUCCESS)
        return result;
    int of_receive = MPI_Wait(&received, status);
    result = complete(&sent, MPI_STATUS_IGNORE);
    return of_receive != MPI_SUCCESS ? of_receive : result;
}

/* What is in a buffer, in one piece of its own. */
static void *copy_of(const void *buffer, int count, MPI_Datatype type, size_t *bytes)
{
    *bytes = message_bytes((size_t)count, type);
    struct packed packed = pack(buffer, *bytes, type);
    if (packed.copy)
        return packed.copy;
    void *copy = malloc(*bytes + 1);
    if (!copy)
        stop_job("no memory for a message of %zu bytes", *bytes);
    if (*bytes)
        memcpy(copy, packed.data, *bytes);
    return copy;
}

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
                         MPI_Comm comm, MPI_Status *status)
{
    if (teams.is_quiet || count < 0 || datatype == MPI_DATATYPE_NULL)
        return PMPI_Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
    size_t bytes;
    void *copy = copy_of(buf, count, datatype, &bytes);
    struct elements sent = few((MPI_Count)bytes, MPI_PACKED);
    int result = MPI_Sendrecv(copy, sent.count, sent.type, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                              status);
    forget_few(&sent);
    free(copy);
    return result;
}

#if HAS_PARTITIONS /* MPIs that have these have those, too. */
int MPI_Isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf,
                  int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
    struct request *own = NULL;
    if (!teams.is_quiet) {
        comm = real_comm(comm);
        own = wanted_receive(recvbuf, recvcount, recvtype, source, recvtag, comm);
    }
    if (!own)
        return PMPI_Isendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                              recvtag, comm, request);
    int result = post_receive(own);
    *request = handle_of(own);
    return result == MPI_SUCCESS
               ? begin_send(SEND_STANDARD, sendbuf, sendcount, sendtype, dest, sendtag, comm, &own->sent)
               : result;
}

int MPI_Isendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
                          MPI_Comm comm, MPI_Request *request)
{
    if (teams.is_quiet || count < 0 || datatype == MPI_DATATYPE_NULL)
        return PMPI_Isendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, request);
    size_t bytes;
    void *copy = copy_of(buf, count, datatype, &bytes);
    struct elements sent = few((MPI_Count)bytes, MPI_PACKED);
    int result = MPI_Isendrecv(copy, sent.count, sent.type, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                               request);
    forget_few(&sent);
    struct request *own = request_of(*request);
    if (result == MPI_SUCCESS && own)
        own->sent_copy = copy;
    return result;
}
#endif

static int persistent_send(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                           MPI_Comm comm, MPI_Request *handle)
{
    struct request *request = wanted(REQUEST_SEND, buffer, count, type, peer, tag, comm);
    request->mode = mode;
    request->is_persistent = true;
    *handle = handle_of(request);
    return MPI_SUCCESS;
}

int MPI_Send_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Send_init(buf, count, datatype, dest, tag, comm, request)
                          : persistent_send(SEND_STANDARD, buf, count, datatype, dest, tag, real_comm(comm), request);
}

int MPI_Ssend_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Ssend_init(buf, count, datatype, dest, tag, comm, request)
                          : persistent_send(SEND_SYNCHRONOUS, buf, count, datatype, dest, tag, real_comm(comm),
                                            request);
}

int MPI_Rsend_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Rsend_init(buf, count, datatype, dest, tag, comm, request)
                          : persistent_send(SEND_READY, buf, count, datatype, dest, tag, real_comm(comm), request);
}

int MPI_Bsend_init(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                   MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Bsend_init(buf, count, datatype, dest, tag, comm, request)
                          : persistent_send(SEND_BUFFERED, buf, count, datatype, dest, tag, real_comm(comm), request);
}

int MPI_Recv_init(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct request *own = NULL;
    if (!teams.is_quiet) {
        comm = real_comm(comm);
        own = wanted_receive(buf, count, datatype, source, tag, comm);
    }
    if (!own)
        return PMPI_Recv_init(buf, count, datatype, source, tag, comm, request);
    own->is_persistent = true;
    *request = handle_of(own);
    return MPI_SUCCESS;
}

int MPI_Start(MPI_Request *request)
{
    struct request *own = request_of(*request);
    if (!own)
        return PMPI_Start(request);
    if (own->kind == REQUEST_RECEIVE)
        return post_receive(own);
    if (own->kind == REQUEST_COLLECTIVE)
        return start_transfer_request(own);
    if (own->kind == REQUEST_PARTS)
        return start_parts(own);
    own->is_active = true;
    return begin_send(own->mode, own->buffer, own->count, own->type, own->wanted_peer, own->wanted_tag, own->comm,
                      &own->data);
}

int MPI_Startall(int count, MPI_Request requests[])
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count && result == MPI_SUCCESS; i++)
        result = MPI_Start(&requests[i]);
    return result;
}
