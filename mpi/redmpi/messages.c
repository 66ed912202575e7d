/* The program's own messages: sends and receives.
 *
 * Each message goes within the team, and a digest or a copy of it to the next teams on the ring [Fiala15, 3.3.2, figure
 * 3.4].
 */
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "collectives.h"
#include "decisions.h"
#include "drops.h"
#include "envelopes.h"
#include "events.h"
#include "history.h"
#include "injector.h"
#include "log.h"
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

/* What goes before a message. */
static void announce(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    if (peer == MPI_PROC_NULL)
        return;
    const struct shadow *shadow = needed_shadow(comm);
    if (!is_valid(shadow, count, type, peer, tag))
        return;
    stay_in();
    size_t bytes = message_bytes((size_t)count, type);
    record_step(STEP_SEND, (int64_t)shadow->number << 32 | peer, tag, (int64_t)bytes);
    inject(buffer, bytes, type, peer, tag);
    if (compares_later()) {
        count_sent(bytes, 0);
        return;
    }
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

static int start_send(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm, MPI_Request *request)
{
    announce((void *)buffer, count, type, peer, tag, comm);
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

static int begin_send(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm, MPI_Request *request)
{
    change_call(&count, &peer, &tag, needed_shadow(comm)->peers);
    return start_send(mode, buffer, count, type, peer, tag, comm, request);
}

/* A send that waits may do so in the MPI, unless receives need us meanwhile. */
static int send_alone(enum send_mode mode, const void *buffer, int count, MPI_Datatype type, int peer, int tag,
                      MPI_Comm comm)
{
    if (mode == SEND_STANDARD && !has_open_wildcards() && !may_drop()) {
        announce((void *)buffer, count, type, peer, tag, comm);
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
        announce((void *)buf, count, datatype, dest, tag, comm);
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

/* A record of what the program wants, for later. */
static struct request *wanted(enum request_kind kind, const void *buffer, int count, MPI_Datatype type, int peer,
                              int tag, MPI_Comm comm)
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

/* What the MPI refuses has no digest that we could wait for. */
static bool can_be_received(const struct shadow *shadow, int count, MPI_Datatype type, int source, int tag)
{
    return is_valid(shadow, count, type, source == MPI_ANY_SOURCE || source == MPI_PROC_NULL ? 0 : source,
                    tag == MPI_ANY_TAG ? 0 : tag);
}

static int begin_receive(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                         MPI_Request *handle)
{
    if (!can_be_received(needed_shadow(comm), count, type, source, tag))
        return PMPI_Irecv(buffer, count, type, source, tag, comm, handle);
    struct request *request = wanted(REQUEST_RECEIVE, buffer, count, type, source, tag, comm);
    int result = post_receive(request);
    *handle = handle_of(request);
    return result;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    return teams.is_quiet ? PMPI_Irecv(buf, count, datatype, source, tag, comm, request)
                          : begin_receive(buf, count, datatype, source, tag, real_comm(comm), request);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (!teams.is_quiet)
        comm = real_comm(comm);
    if (teams.is_quiet || !can_be_received(needed_shadow(comm), count, datatype, source, tag))
        return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
    struct request *request = wanted(REQUEST_RECEIVE, buf, count, datatype, source, tag, comm);
    request->is_blocking = true;
    int result = post_receive(request);
    if (result == MPI_SUCCESS) {
        result = finish_receive(request, status);
        free_request(request);
    }
    return result;
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

int MPI_Sendrecv_replace(void *buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag,
                         MPI_Comm comm, MPI_Status *status)
{
    if (teams.is_quiet || count < 0 || datatype == MPI_DATATYPE_NULL)
        return PMPI_Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
    int most;
    PMPI_Pack_size(count, datatype, real_comm(comm), &most);
    void *copy = malloc((size_t)most + 1);
    int position = 0;
    if (!copy)
        stop_job("no memory for a message of %d bytes", most);
    PMPI_Pack(buf, count, datatype, copy, most, &position, real_comm(comm));
    int result = MPI_Sendrecv(copy, position, MPI_PACKED, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                              status);
    free(copy);
    return result;
}

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
    if (teams.is_quiet)
        return PMPI_Recv_init(buf, count, datatype, source, tag, comm, request);
    comm = real_comm(comm);
    if (!can_be_received(needed_shadow(comm), count, datatype, source, tag))
        return PMPI_Recv_init(buf, count, datatype, source, tag, comm, request);
    struct request *wish = wanted(REQUEST_RECEIVE, buf, count, datatype, source, tag, comm);
    wish->is_persistent = true;
    *request = handle_of(wish);
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
