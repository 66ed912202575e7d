/* The calls that create, complete and free requests.
 *
 * A completed request is gone when the call returns, so its handle is saved before. Only the status tells what was
 * received, so the program's "ignore" is replaced by a status of our own. A test that finds nothing is not recorded.
 *
 * Fortran's calls are C's with other handles, in every implementation. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "fortran.h"
#include "record.h"

/* Handles and statuses of one call. They grow to the longest list so far, and stay. */
static struct {
    int room;
    MPI_Request *asked;
    MPI_Status *statuses;
} list;

static void *grown(void *old, size_t count, size_t size)
{
    void *memory = realloc(old, count * size);
    if (memory == NULL)
        abort();
    return memory;
}

static void make_room(int count)
{
    if (count <= list.room)
        return;
    list.asked = grown(list.asked, (size_t)count, sizeof *list.asked);
    list.statuses = grown(list.statuses, (size_t)count, sizeof *list.statuses);
    list.room = count;
}

static MPI_Status *keep(int count, const MPI_Request requests[], MPI_Status *statuses)
{
    make_room(count > 0 ? count : 1);
    if (count > 0)
        memcpy(list.asked, requests, (size_t)count * sizeof *requests);
    return statuses == MPI_STATUSES_IGNORE || statuses == MPI_STATUS_IGNORE ? list.statuses : statuses;
}

/* Records one of so many remaining requests of a call, this one included. */
static void done_of(int requests, MPI_Request request, const MPI_Status *status)
{
    if (request == MPI_REQUEST_NULL)
        return;
    int cancelled = 0;
    PMPI_Test_cancelled(status, &cancelled);
    put_record_of(requests, RECORD_DONE);
    put_request(HANDLE(request));
    put(cancelled != 0);
    /* A send's status says nothing here; an invalid rank or tag is ignored. */
    put(status->MPI_SOURCE >= 0 ? (uint64_t)status->MPI_SOURCE + 1 : 0);
    put(status->MPI_TAG >= 0 ? (uint64_t)status->MPI_TAG + 1 : 0);
}

static void done(MPI_Request request, const MPI_Status *status)
{
    done_of(1, request, status);
}

/* Records whether a test found something, and returns it. */
static bool looked(int something)
{
    if (something)
        worked();
    else
        missed();
    return something;
}

static void all_done(int count, const MPI_Status statuses[])
{
    for (int i = 0; i < count; i++)
        done_of(count - i, list.asked[i], &statuses[i]);
}

static void some_done(int count, const int indices[], const MPI_Status statuses[])
{
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++)
        done_of(count - i, list.asked[indices[i]], &statuses[i]);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    bool own = enter();
    MPI_Request asked = *request;
    MPI_Status mine;
    status = status == MPI_STATUS_IGNORE ? &mine : status;
    int result = PMPI_Wait(request, status);
    if (own && result == MPI_SUCCESS)
        done(asked, status);
    leave();
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    bool own = enter();
    MPI_Request asked = *request;
    MPI_Status mine;
    status = status == MPI_STATUS_IGNORE ? &mine : status;
    int result = PMPI_Test(request, flag, status);
    if (own && result == MPI_SUCCESS && looked(*flag))
        done(asked, status);
    leave();
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    bool own = enter();
    if (own)
        statuses = keep(count, requests, statuses);
    int result = PMPI_Waitall(count, requests, statuses);
    if (own && result == MPI_SUCCESS)
        all_done(count, statuses);
    leave();
    return result;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses)
{
    bool own = enter();
    if (own)
        statuses = keep(count, requests, statuses);
    int result = PMPI_Testall(count, requests, flag, statuses);
    if (own && result == MPI_SUCCESS && looked(*flag))
        all_done(count, statuses);
    leave();
    return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    bool own = enter();
    if (own)
        status = keep(count, requests, status);
    int result = PMPI_Waitany(count, requests, index, status);
    if (own && result == MPI_SUCCESS && *index != MPI_UNDEFINED)
        done(list.asked[*index], status);
    leave();
    return result;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    bool own = enter();
    if (own)
        status = keep(count, requests, status);
    int result = PMPI_Testany(count, requests, index, flag, status);
    if (own && result == MPI_SUCCESS && looked(*flag) && *index != MPI_UNDEFINED)
        done(list.asked[*index], status);
    leave();
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *completed, int indices[], MPI_Status *statuses)
{
    bool own = enter();
    if (own)
        statuses = keep(count, requests, statuses);
    int result = PMPI_Waitsome(count, requests, completed, indices, statuses);
    if (own && result == MPI_SUCCESS)
        some_done(*completed, indices, statuses);
    leave();
    return result;
}

int MPI_Testsome(int count, MPI_Request requests[], int *completed, int indices[], MPI_Status *statuses)
{
    bool own = enter();
    if (own)
        statuses = keep(count, requests, statuses);
    int result = PMPI_Testsome(count, requests, completed, indices, statuses);
    if (own && result == MPI_SUCCESS && looked(*completed))
        some_done(*completed, indices, statuses);
    leave();
    return result;
}

static void started(int count, const MPI_Request requests[])
{
    worked();
    for (int i = 0; i < count; i++) {
        put_record_of(count - i, RECORD_START);
        put_request(HANDLE(requests[i]));
    }
}

int MPI_Start(MPI_Request *request)
{
    bool own = enter();
    int result = PMPI_Start(request);
    if (own && result == MPI_SUCCESS)
        started(1, request);
    leave();
    return result;
}

int MPI_Startall(int count, MPI_Request requests[])
{
    bool own = enter();
    int result = PMPI_Startall(count, requests);
    if (own && result == MPI_SUCCESS)
        started(count, requests);
    leave();
    return result;
}

int MPI_Request_free(MPI_Request *request)
{
    bool own = enter();
    MPI_Request freed = *request;
    int result = PMPI_Request_free(request);
    if (own && result == MPI_SUCCESS) {
        worked();
        put_record(RECORD_FREE);
        put_request(HANDLE(freed));
    }
    leave();
    return result;
}

/* They are the MPI's own here. */
MPI_Request request_from_fortran(MPI_Fint number)
{
    return PMPI_Request_f2c(number);
}

MPI_Fint request_to_fortran(MPI_Request handle)
{
    return PMPI_Request_c2f(handle);
}
