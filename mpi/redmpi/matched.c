/* Matched probes: a probe takes a message off the MPI's list, and the program receives it later.
 *
 * From the probe on, another receive can take the next message of the same source and tag. So the digests of this one
 * are received from then on, too. */
#include <mpi.h>
#include <stdlib.h>

#include "events.h"
#include "history.h"
#include "probes.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* A message that was probed and not received yet. */
struct matched {
    MPI_Message message;
    struct request *request;
    struct matched *next;
};

static struct matched *first;

static void keep(MPI_Message message, struct request *request)
{
    struct matched *one = malloc(sizeof *one);
    if (!one)
        stop_job("no memory for a message that was probed");
    *one = (struct matched){ .message = message, .request = request, .next = first };
    first = one;
}

/* The record of a message, which is kept no longer; null if it has none. */
static struct request *taken(MPI_Message message)
{
    for (struct matched **place = &first; *place; place = &(*place)->next) {
        struct matched *one = *place;
        if (one->message == message) {
            struct request *request = one->request;
            *place = one->next;
            free(one);
            return request;
        }
    }
    return NULL;
}

/* An earlier receive from any source may have the message before this one, which is still on its way. */
static void begin(MPI_Message message, const MPI_Status *status, MPI_Comm comm)
{
    struct request *request = new_request(REQUEST_RECEIVE);
    request->comm = comm;
    request->shadow = shadow_hold(needed_shadow(comm));
    request->wanted_peer = request->peer = status->MPI_SOURCE;
    request->wanted_tag = request->tag = status->MPI_TAG;
    MPI_Count bytes;
    PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
    request->room = (size_t)bytes;
    record_step(STEP_RECEIVE, (int64_t)request->shadow->number << 32 | (uint32_t)request->peer, request->tag, 0);
    for (unsigned looks = 0; is_held_back(comm, request->peer, request->tag); looks++)
        wait_on(looks);
    post_digests(request);
    keep(message, request);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Mprobe(source, tag, comm, message, status);
    MPI_Status own;
    struct probe wish = { source, tag, real_comm(comm), message, status == MPI_STATUS_IGNORE ? &own : status };
    int error = error_of_probe(&wish);
    if (error != MPI_SUCCESS)
        return error;
    begin_wait("message", shadow_of(wish.comm), source, tag);
    probe(&wish, true);
    begin(*message, wish.status, wish.comm);
    end_wait();
    return MPI_SUCCESS;
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Improbe(source, tag, comm, flag, message, status);
    MPI_Status own;
    struct probe wish = { source, tag, real_comm(comm), message, status == MPI_STATUS_IGNORE ? &own : status };
    int error = error_of_probe(&wish);
    if (error != MPI_SUCCESS)
        return error;
    *flag = probe(&wish, false);
    if (*flag)
        begin(*message, wish.status, wish.comm);
    return MPI_SUCCESS;
}

int MPI_Imrecv(void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Request *request)
{
    struct request *own = teams.is_quiet || count < 0 || datatype == MPI_DATATYPE_NULL ? NULL : taken(*message);
    if (!own)
        return PMPI_Imrecv(buf, count, datatype, message, request);
    own->buffer = buf;
    own->count = count;
    keep_type(own, datatype);
    own->is_active = own->is_posted = true;
    *request = handle_of(own);
    return PMPI_Imrecv(buf, count, own->type, message, &own->data);
}

int MPI_Mrecv(void *buf, int count, MPI_Datatype datatype, MPI_Message *message, MPI_Status *status)
{
    MPI_Request handle;
    int result = MPI_Imrecv(buf, count, datatype, message, &handle);
    return result == MPI_SUCCESS ? MPI_Wait(&handle, status) : result;
}
