/* Waits and tests.
 *
 * What the program has waited for was compared before. Which requests a test, or a wait for any of several, finds to be
 * done is decided by one replica [Fiala15, 3.3.3]; the others wait for the same ones. */
#include <mpi.h>
#include <stdlib.h>

#include "collectives.h"
#include "decisions.h"
#include "drops.h"
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

/* Some requests, of which it is to be decided which are done. */
struct list {
    int count;
    MPI_Request *requests;
    int *indices; /* those that are known */
    int known, wanted;
};

static bool are_all_done(void *what, struct decision *decision)
{
    const struct list *list = what;
    (void)decision;
    for (int i = 0; i < list->count; i++) {
        if (!is_done(list->requests[i]))
            return false;
    }
    return true;
}

static bool are_all_ready(void *what, const struct decision *decision)
{
    (void)decision;
    return are_all_done(what, NULL);
}

/* Whether all of these are done. */
static bool decide_all(int count, MPI_Request requests[])
{
    struct list list = { .count = count, .requests = requests };
    struct decision unused;
    return decide(&(struct choice){ .kind = DECISION_FOUND, .look = are_all_done, .is_ready = are_all_ready,
                                    .what = &list }, &unused);
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
    *flag = is_idle(*request) || decide_all(1, request);
    return *flag ? finish(request, status) : MPI_SUCCESS;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses)
{
    if (teams.is_quiet)
        return PMPI_Testall(count, requests, flag, statuses);
    bool are_idle = true;
    for (int i = 0; i < count; i++)
        are_idle &= is_idle(requests[i]);
    *flag = are_idle || decide_all(count, requests);
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

static bool find_one(void *what, struct decision *decision)
{
    const struct list *list = what;
    decision->numbers[0] = find_done(list->count, list->requests);
    return decision->numbers[0] >= 0;
}

/* What another replica says must make sense here: else one of the two has left the path. */
static bool is_in_range(int number, int end)
{
    if (number >= 0 && number < end)
        return true;
    if (!may_drop())
        leave_path("replica %d of rank %d does other things than replica 0: an error has changed what one of them does",
                   teams.replica, teams.rank);
    return false;
}

static bool is_one_ready(void *what, const struct decision *decision)
{
    const struct list *list = what;
    return is_in_range(decision->numbers[0], list->count) && is_done(list->requests[decision->numbers[0]]);
}

/* Which one is done; -1 if none is. */
static int decide_one(int count, MPI_Request requests[], bool waits)
{
    struct list list = { .count = count, .requests = requests };
    struct decision found;
    bool is_found = decide(&(struct choice){ .kind = DECISION_FOUND, .waits = waits, .look = find_one,
                                             .is_ready = is_one_ready, .what = &list }, &found);
    return is_found ? found.numbers[0] : -1;
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
    *index = MPI_UNDEFINED;
    if (all_idle(count, requests)) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    begin_wait("MPI_Waitany", NULL, -1, -1);
    *index = decide_one(count, requests, true);
    end_wait();
    return finish(&requests[*index], status);
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
    int found = decide_one(count, requests, false);
    *flag = found >= 0;
    if (!*flag)
        return MPI_SUCCESS;
    *index = found;
    return finish(&requests[found], status);
}

static bool is_known(const struct list *list, int place)
{
    for (int i = 0; i < list->known; i++) {
        if (list->indices[i] == place)
            return true;
    }
    return false;
}

/* How many are done. */
static bool count_done(void *what, struct decision *decision)
{
    const struct list *list = what;
    for (int i = 0; i < list->count; i++)
        decision->numbers[0] += !is_idle(list->requests[i]) && is_done(list->requests[i]);
    return decision->numbers[0] > 0;
}

/* Whether so many are done here, too, will be seen. */
static bool is_count_ready(void *what, const struct decision *decision)
{
    const struct list *list = what;
    return is_in_range(decision->numbers[0], list->count + 1);
}

/* The next ones that are done, in the order of the list, as many as a decision has room for. */
static bool find_more(void *what, struct decision *decision)
{
    const struct list *list = what;
    int wanted = list->wanted - list->known, found = 0;
    wanted = wanted < DECISION_NUMBERS ? wanted : DECISION_NUMBERS;
    for (int i = 0; i < list->count && found < wanted; i++) {
        if (!is_known(list, i) && !is_idle(list->requests[i]) && is_done(list->requests[i]))
            decision->numbers[found++] = i;
    }
    return found == wanted;
}

static bool are_more_ready(void *what, const struct decision *decision)
{
    const struct list *list = what;
    for (int i = 0; i < DECISION_NUMBERS && list->known + i < list->wanted; i++) {
        if (!is_in_range(decision->numbers[i], list->count) || !is_done(list->requests[decision->numbers[i]]))
            return false;
    }
    return true;
}

/* Which ones are done; returns how many. */
static int decide_some(int count, MPI_Request requests[], int indices[], bool waits)
{
    struct list list = { .count = count, .requests = requests, .indices = indices };
    struct decision found;
    if (!decide(&(struct choice){ .kind = DECISION_FOUND, .waits = waits, .look = count_done,
                                  .is_ready = is_count_ready, .what = &list }, &found))
        return 0;
    list.wanted = found.numbers[0];
    while (list.known < list.wanted) {
        decide(&(struct choice){ .kind = DECISION_MORE, .waits = true, .look = find_more,
                                 .is_ready = are_more_ready, .what = &list }, &found);
        for (int i = 0; i < DECISION_NUMBERS && list.known < list.wanted; i++)
            indices[list.known++] = found.numbers[i];
    }
    return list.wanted;
}

static int finish_some(int found, MPI_Request requests[], int indices[], MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
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
    begin_wait("MPI_Waitsome", NULL, -1, -1);
    *completed = decide_some(count, requests, indices, true);
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
    *completed = decide_some(count, requests, indices, false);
    return finish_some(*completed, requests, indices, statuses);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    if (teams.is_quiet)
        return PMPI_Request_get_status(request, flag, status);
    struct request *own = request_of(request);
    *flag = is_idle(request);
    if (*flag) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    *flag = decide_all(1, &request);
    if (!*flag)
        return MPI_SUCCESS;
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
