/* See requests.h. */
#include "requests.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "deaths.h"
#include "decisions.h"
#include "drops.h"
#include "events.h"
#include "receives.h"
#include "waits.h"

/* Requests at a time, and looks without a rest. */
#define MOST_REQUESTS (1 << 20)
#define QUICK_LOOKS 50

/* Reserved at once, so that a handle tells by its place whether it is ours; memory is used as records are. */
static struct request *records;
static uint32_t records_used;
static struct request *free_records;

static const bool handles_are_numbers = sizeof(MPI_Request) == sizeof(int);
_Static_assert(sizeof(MPI_Request) == sizeof(int) || sizeof(MPI_Request) == sizeof(void *), "a number or a pointer");

/* The number behind a handle that is one. */
static uint32_t number_of(MPI_Request handle)
{
    uint32_t number;
    memcpy(&number, &handle, sizeof number);
    return number;
}

static void reserve_records(void)
{
    void *all = mmap(NULL, sizeof(struct request) * MOST_REQUESTS, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        stop_job("no room for requests");
    records = all;
}

struct request *new_request(enum request_kind kind)
{
    if (!records)
        reserve_records();
    struct request *request = free_records;
    if (request)
        free_records = request->next_free;
    else if (records_used < MOST_REQUESTS)
        request = &records[records_used++];
    else
        stop_job("more than %d requests at a time", MOST_REQUESTS);
    void *envelopes = request->envelopes;
    *request = (struct request){
        .kind = kind, .envelopes = envelopes, .data = MPI_REQUEST_NULL, .sent = MPI_REQUEST_NULL
    };
    for (int i = 0; i < MOST_COMPARED; i++)
        request->digests[i] = MPI_REQUEST_NULL;
    return request;
}

void keep_type(struct request *request, MPI_Datatype type)
{
    request->type = type;
    request->is_type_ours = type != MPI_DATATYPE_NULL && is_derived(type);
    if (request->is_type_ours)
        PMPI_Type_dup(type, &request->type);
}

void free_request(struct request *request)
{
    if (request->is_type_ours)
        PMPI_Type_free(&request->type);
    shadow_release(request->shadow);
    request->kind = REQUEST_FREE;
    request->next_free = free_records;
    free_records = request;
}

/* Where handles are numbers, those behind that of no request mean no object of the MPI [MPICH: the kind "invalid"]. */
MPI_Request handle_of(const struct request *request)
{
    MPI_Request handle;
    uint32_t number = number_of(MPI_REQUEST_NULL) + 1 + (uint32_t)(request - records);
    if (handles_are_numbers)
        memcpy(&handle, &number, sizeof number);
    else
        memcpy(&handle, &request, sizeof request);
    return handle;
}

struct request *request_of(MPI_Request handle)
{
    if (handles_are_numbers) {
        uint32_t place = number_of(handle) - number_of(MPI_REQUEST_NULL) - 1;
        return place < records_used ? &records[place] : NULL;
    }
    struct request *request;
    memcpy(&request, &handle, sizeof request);
    return request >= records && request < records + records_used ? request : NULL;
}

/* Fortran's numbers of the MPI begin at 0, or are its handles: ours are negative, which neither uses. */
MPI_Request request_from_fortran(MPI_Fint number)
{
    if (handles_are_numbers || number >= 0)
        return PMPI_Request_f2c(number);
    uint32_t place = (uint32_t)(-(number + 1));
    return place < records_used ? handle_of(&records[place]) : MPI_REQUEST_NULL;
}

MPI_Fint request_to_fortran(MPI_Request handle)
{
    const struct request *request = handles_are_numbers ? NULL : request_of(handle);
    return request ? -(MPI_Fint)(request - records) - 1 : PMPI_Request_c2f(handle);
}

/* Where they are no macros. */
#ifndef MPI_Request_c2f
MPI_Fint MPI_Request_c2f(MPI_Request request)
{
    return request_to_fortran(request);
}
#endif

#ifndef MPI_Request_f2c
MPI_Request MPI_Request_f2c(MPI_Fint request)
{
    return request_from_fortran(request);
}
#endif

#if MPI_VERSION >= 5
int MPI_Request_toint(MPI_Request request)
{
    return request_to_fortran(request);
}

MPI_Request MPI_Request_fromint(int request)
{
    return request_from_fortran(request);
}
#endif

void give_status(MPI_Status *status, const MPI_Status *found)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    int error = status->MPI_ERROR;
    *status = *found;
    status->MPI_ERROR = error;
}

/* It looks for a message of this process to itself: one of any process is an error once one of them is dead. */
void let_mpi_go_on(void)
{
    int unused;
    PMPI_Iprobe(teams.replica, TAG_NONE, teams.column, &unused, MPI_STATUS_IGNORE);
}

void rest(unsigned looks)
{
    stay_in();
    look_for_succession();
    if (looks > QUICK_LOOKS)
        sched_yield();
}

void wait_on(unsigned looks)
{
    flush_decisions();
    advance_receives();
    rest(looks);
}

int complete(MPI_Request *request, MPI_Status *status)
{
    int is_done = 0;
    int result = PMPI_Test(request, &is_done, status);
    if (is_done || result != MPI_SUCCESS)
        return result;
    begin_wait("MPI_Wait", NULL, -1, -1);
    for (unsigned looks = 0; !is_done && result == MPI_SUCCESS; looks++) {
        wait_on(looks);
        result = PMPI_Test(request, &is_done, status);
    }
    end_wait();
    return result;
}

void complete_alone(MPI_Request *request)
{
    int is_done = 0;
    PMPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    for (unsigned looks = 0; !is_done; looks++) {
        rest(looks);
        PMPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    }
}

void duplicate_alone(MPI_Comm comm, MPI_Comm *copy)
{
    MPI_Request request;
    PMPI_Comm_idup(comm, copy, &request);
    complete_alone(&request);
}

void complete_with(MPI_Request *request, int team)
{
    for (unsigned looks = 0; !has_ended(request, team, MPI_STATUS_IGNORE); looks++) {
        if (is_out(team)) {
            if (*request != MPI_REQUEST_NULL)
                PMPI_Request_free(request);
            return;
        }
        wait_on(looks);
    }
}
