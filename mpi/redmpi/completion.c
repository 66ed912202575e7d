/* Waits and tests.
 *
 * What the program has waited for was compared before. Which requests a test, or a wait for any of several, finds to be
 * done is decided by one replica [Fiala15, 3.3.3]; the others wait for the same ones. */
#include <mpi.h>
#include <stdlib.h>

#include "collectives.h"
#include "decisions.h"
#include "duplicates.h"
#include "events.h"
#include "generalized.h"
#include "partitions.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* A request that waits for nothing: none, or a persistent one that was not started. */
static bool is_idle(MPI_Request handle)
{
    const struct request *own = request_of(handle);
    return handle == MPI_REQUEST_NULL || (own && !own->is_active);
}

/* Whether that which is sent beside a receive is sent. */
static bool is_sent(struct request *own)
{
    int is_there = true;
    if (own->sent != MPI_REQUEST_NULL)
        PMPI_Test(&own->sent, &is_there, MPI_STATUS_IGNORE);
    return is_there;
}

/* Whether it is done; does not wait, and the program still has it. */
static bool is_done(MPI_Request handle)
{
    struct request *own = request_of(handle);
    int is_there = 1;
    if (is_idle(handle) || (own && own->is_checked))
        return true;
    advance_receives();
    switch (own ? own->kind : REQUEST_FREE) {
    case REQUEST_RECEIVE:
        return receive_is_here(own) && is_sent(own);
    case REQUEST_PARTS:
        return parts_are_done(own);
    case REQUEST_GENERALIZED:
        return generalized_is_done(own);
    default:
        PMPI_Request_get_status(own ? own->data : handle, &is_there, MPI_STATUS_IGNORE);
        return is_there && (!own || own->kind != REQUEST_COMMUNICATOR || duplicate_is_made(own));
    }
}

static void set_empty(MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
    status->MPI_ERROR = MPI_SUCCESS;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
}

static int end_of_operation(struct request *own)
{
    begin_wait(own->kind == REQUEST_COLLECTIVE ? own->transfer->name : "MPI_Wait", NULL, -1, -1);
    int result = complete(&own->data, &own->status);
    end_wait();
    return result;
}

static int end_of_receive(struct request *own)
{
    int result = finish_receive(own, &own->status);
    int sent = own->sent == MPI_REQUEST_NULL ? MPI_SUCCESS : complete(&own->sent, MPI_STATUS_IGNORE);
    free(own->sent_copy);
    own->sent_copy = NULL;
    return result == MPI_SUCCESS ? sent : result;
}

static int end_of(struct request *own)
{
    switch (own->kind) {
    case REQUEST_RECEIVE:
        return end_of_receive(own);
    case REQUEST_PARTS:
        return end_parts(own);
    case REQUEST_GENERALIZED:
        set_empty(&own->status);
        return end_generalized(own);
    default:
        return end_of_operation(own);
    }
}

/* Waits for one of ours, and compares what came of it: once, whether the program only looks or waits. */
static int conclude(struct request *own, MPI_Status *status)
{
    if (!own->is_checked) {
        own->result = end_of(own);
        if (own->kind == REQUEST_COLLECTIVE && own->result == MPI_SUCCESS)
            end_transfer_request(own);
        if (own->kind == REQUEST_COMMUNICATOR && own->result == MPI_SUCCESS)
            end_duplicate(own);
        own->is_checked = own->is_active = true;
    }
    give_status(status, &own->status);
    return own->result;
}

/* Waits for one, which the program then has no longer, unless it is persistent. */
static int finish(MPI_Request *handle, MPI_Status *status)
{
    struct request *own = request_of(*handle);
    if (is_idle(*handle)) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    if (!own)
        return complete(handle, status);
    int result = conclude(own, status);
    own->is_checked = own->is_active = false;
    if (own->kind == REQUEST_GENERALIZED) {
        int freed = free_generalized(own);
        *handle = MPI_REQUEST_NULL;
        return result == MPI_SUCCESS ? freed : result;
    }
    if (!own->is_persistent) {
        free_request(own);
        *handle = MPI_REQUEST_NULL;
    }
    return result;
}

static MPI_Status *status_at(MPI_Status *statuses, int place)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[place];
}

/* What another replica says must make sense here: else one of the two has left the path. */
static void check_range(int number, int end)
{
    if (number < 0 || number >= end)
        leave_path("replica %d of rank %d does other things than replica 0: an error has changed what one of them does",
                 teams.replica, teams.rank);
}

static void must_decide(int *number, int end)
{
    if (!decide(true, number))
        *number = -1;
    check_range(*number, end);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    return teams.is_quiet ? PMPI_Wait(request, status) : finish(request, status);
}

static int finish_all(int count, MPI_Request requests[], MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = status_at(statuses, i);
        int one = finish(&requests[i], status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = one;
        if (one != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    return teams.is_quiet ? PMPI_Waitall(count, requests, statuses) : finish_all(count, requests, statuses);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    if (teams.is_quiet)
        return PMPI_Test(request, flag, status);
    int unused = 0;
    *flag = is_idle(*request) || decide(decides() && is_done(*request), &unused);
    return *flag ? finish(request, status) : MPI_SUCCESS;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses)
{
    if (teams.is_quiet)
        return PMPI_Testall(count, requests, flag, statuses);
    bool are_idle = true, are_done = decides();
    int unused = 0;
    for (int i = 0; i < count; i++)
        are_idle &= is_idle(requests[i]);
    for (int i = 0; i < count && are_done; i++)
        are_done = is_done(requests[i]);
    *flag = are_idle || decide(are_done, &unused);
    return *flag ? finish_all(count, requests, statuses) : MPI_SUCCESS;
}

/* The first request that is done; -1 if there is none. Begins where it ended, so that none waits for ever. */
static int find_done(int count, MPI_Request requests[])
{
    static unsigned turn;
    for (int i = 0; i < count; i++) {
        int place = (int)((turn + (unsigned)i) % (unsigned)count);
        if (!is_idle(requests[place]) && is_done(requests[place])) {
            turn = (unsigned)place + 1;
            return place;
        }
    }
    return -1;
}

static bool all_idle(int count, MPI_Request requests[])
{
    for (int i = 0; i < count; i++) {
        if (!is_idle(requests[i]))
            return false;
    }
    return true;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    if (teams.is_quiet)
        return PMPI_Waitany(count, requests, index, status);
    int found = -1;
    *index = MPI_UNDEFINED;
    if (all_idle(count, requests)) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    flush_decisions();
    begin_wait("MPI_Waitany", NULL, -1, -1);
    for (unsigned looks = 0; decides() && (found = find_done(count, requests)) < 0; looks++)
        rest(looks);
    must_decide(&found, count);
    end_wait();
    *index = found;
    return finish(&requests[found], status);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    if (teams.is_quiet)
        return PMPI_Testany(count, requests, index, flag, status);
    *index = MPI_UNDEFINED;
    *flag = all_idle(count, requests);
    if (*flag) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    int found = decides() ? find_done(count, requests) : -1;
    *flag = decide(found >= 0, &found);
    if (!*flag)
        return MPI_SUCCESS;
    check_range(found, count);
    *index = found;
    return finish(&requests[found], status);
}

/* All that are done, in the order of the list. */
static int find_all_done(int count, MPI_Request requests[], int indices[])
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (!is_idle(requests[i]) && is_done(requests[i]))
            indices[found++] = i;
    }
    return found;
}

/* Tells or hears which ones; their number is known to all. */
static void share_indices(int found, int indices[])
{
    for (int i = 0; i < found; i += DECISION_NUMBERS) {
        struct decision decision = { .kind = DECISION_MORE };
        int now = found - i < DECISION_NUMBERS ? found - i : DECISION_NUMBERS;
        for (int j = 0; j < now && decides(); j++)
            decision.numbers[j] = indices[i + j];
        if (decides())
            tell_decision(&decision);
        else
            must_hear(&decision);
        for (int j = 0; j < now; j++)
            indices[i + j] = decision.numbers[j];
    }
}

static int finish_some(int found, MPI_Request requests[], int indices[], MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    share_indices(found, indices);
    for (int i = 0; i < found; i++) {
        MPI_Status *status = status_at(statuses, i);
        int one = finish(&requests[indices[i]], status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = one;
        if (one != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
    }
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *completed, int indices[], MPI_Status *statuses)
{
    if (teams.is_quiet)
        return PMPI_Waitsome(count, requests, completed, indices, statuses);
    *completed = MPI_UNDEFINED;
    if (all_idle(count, requests))
        return MPI_SUCCESS;
    *completed = 0;
    flush_decisions();
    begin_wait("MPI_Waitsome", NULL, -1, -1);
    for (unsigned looks = 0; decides() && !(*completed = find_all_done(count, requests, indices)); looks++)
        rest(looks);
    must_decide(completed, count + 1);
    end_wait();
    return finish_some(*completed, requests, indices, statuses);
}

int MPI_Testsome(int count, MPI_Request requests[], int *completed, int indices[], MPI_Status *statuses)
{
    if (teams.is_quiet)
        return PMPI_Testsome(count, requests, completed, indices, statuses);
    *completed = MPI_UNDEFINED;
    if (all_idle(count, requests))
        return MPI_SUCCESS;
    *completed = decides() ? find_all_done(count, requests, indices) : 0;
    if (!decide(*completed > 0, completed)) {
        *completed = 0;
        return MPI_SUCCESS;
    }
    check_range(*completed, count + 1);
    return finish_some(*completed, requests, indices, statuses);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    if (teams.is_quiet)
        return PMPI_Request_get_status(request, flag, status);
    struct request *own = request_of(request);
    int unused = 0;
    *flag = is_idle(request);
    if (*flag) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    *flag = decide(decides() && is_done(request), &unused);
    if (!*flag)
        return MPI_SUCCESS;
    for (unsigned looks = 0; !is_done(request); looks++)
        rest(looks);
    return own ? conclude(own, status) : PMPI_Request_get_status(request, flag, status);
}

int MPI_Request_free(MPI_Request *request)
{
    struct request *own = request_of(*request);
    if (!own)
        return PMPI_Request_free(request);
    if (own->kind == REQUEST_GENERALIZED) {
        *request = MPI_REQUEST_NULL;
        return free_generalized(own);
    }
    if (own->is_active && own->is_cancelled && !own->is_checked)
        finish_receive(own, MPI_STATUS_IGNORE);
    if (own->is_checked)
        own->is_active = false;
    if (own->is_active && own->kind != REQUEST_SEND)
        stop_job("MPI_Request_free of what goes on and is no send, which is not supported");
    if (own->is_active)
        PMPI_Request_free(&own->data);
    if (own->kind == REQUEST_COLLECTIVE && own->is_persistent) {
        PMPI_Request_free(&own->data);
        forget_transfer_request(own);
    }
    if (own->kind == REQUEST_PARTS)
        forget_parts(own);
    free_request(own);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Cancel(MPI_Request *request)
{
    struct request *own = request_of(*request);
    if (own && own->kind == REQUEST_GENERALIZED)
        return cancel_generalized(own);
    if (own && own->kind == REQUEST_RECEIVE && own->sent == MPI_REQUEST_NULL)
        return cancel_receive(own);
    if (!teams.is_quiet)
        stop_job("MPI_Cancel of what is no receive, which is not supported");
    return PMPI_Cancel(request);
}
