/* See duplicates.h. */
#include "duplicates.h"

#include <stdlib.h>

#include "events.h"
#include "history.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

struct duplicate {
    MPI_Comm comm, of;
    struct shadow *shadow;
    struct request *next; /* of those that are begun */
    /* Where the program wants it; one of them is null. */
    MPI_Comm *for_c;
    MPI_Fint *for_fortran;
};

#ifdef OPEN_MPI
enum { ONE_AT_A_TIME = true };
#else
enum { ONE_AT_A_TIME = false };
#endif

/* Those that are not made yet, as far as is known. */
static struct request *begun;

static void await(const struct request *request)
{
    int is_here = 0;
    begin_wait("MPI_Comm_idup", NULL, -1, -1);
    for (unsigned looks = 0; !is_here || !duplicate_is_made(request); looks++) {
        wait_on(looks);
        PMPI_Request_get_status(request->data, &is_here, MPI_STATUS_IGNORE);
    }
    end_wait();
}

static void forget(const struct request *request)
{
    struct request **link = &begun;
    while (*link && *link != request)
        link = &(*link)->duplicate->next;
    if (*link)
        *link = request->duplicate->next;
}

void await_duplicates(MPI_Comm comm)
{
    for (struct request *next, *one = begun; ONE_AT_A_TIME && one; one = next) {
        next = one->duplicate->next;
        if (one->duplicate->of != comm)
            continue;
        await(one);
        forget(one);
    }
}

bool duplicate_is_made(const struct request *request)
{
    return shadow_is_made(request->duplicate->shadow);
}

void end_duplicate(struct request *request)
{
    struct duplicate *duplicate = request->duplicate;
    forget(request);
    await_shadow(duplicate->shadow);
    shadow_attach(duplicate->comm, duplicate->shadow);
    if (duplicate->for_c)
        *duplicate->for_c = duplicate->comm;
    if (duplicate->for_fortran)
        *duplicate->for_fortran = PMPI_Comm_c2f(duplicate->comm);
    free(duplicate);
}

/* The MPI writes the handle into our record, which stays where it is until the program waits. */
static struct request *place_for(MPI_Comm comm, MPI_Comm *for_c, MPI_Fint *for_fortran)
{
    await_duplicates(comm);
    struct request *request = new_request(REQUEST_COMMUNICATOR);
    struct duplicate *duplicate = malloc(sizeof *duplicate);
    if (!duplicate)
        stop_job("no memory for a communicator");
    struct shadow *shadow = needed_shadow(comm);
    *duplicate = (struct duplicate){
        .comm = MPI_COMM_NULL, .of = comm, .next = begun, .for_c = for_c, .for_fortran = for_fortran
    };
    duplicate->shadow = shadow_duplicate(shadow, comm);
    record_step(STEP_COMMUNICATOR, shadow->number, 0, 0);
    request->duplicate = duplicate;
    request->is_active = true;
    begun = request;
    return request;
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *handle)
{
    if (teams.is_quiet)
        return PMPI_Comm_idup(comm, newcomm, handle);
    struct request *request = place_for(real_comm(comm), newcomm, NULL);
    *handle = handle_of(request);
    return PMPI_Comm_idup(real_comm(comm), &request->duplicate->comm, &request->data);
}

FORTRAN(mpi_comm_idup, MPI_COMM_IDUP, (MPI_Fint * comm, MPI_Fint *newcomm, MPI_Fint *handle, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    if (teams.is_quiet) {
        pmpi_comm_idup_(comm, newcomm, handle, error);
        return;
    }
    MPI_Comm own = real_comm(PMPI_Comm_f2c(*comm));
    struct request *request = place_for(own, NULL, newcomm);
    *handle = request_to_fortran(handle_of(request));
    *error = PMPI_Comm_idup(own, &request->duplicate->comm, &request->data);
}

#if MPI_VERSION >= 4
int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *handle)
{
    if (teams.is_quiet)
        return PMPI_Comm_idup_with_info(comm, info, newcomm, handle);
    struct request *request = place_for(real_comm(comm), newcomm, NULL);
    *handle = handle_of(request);
    return PMPI_Comm_idup_with_info(real_comm(comm), info, &request->duplicate->comm, &request->data);
}

FORTRAN(mpi_comm_idup_with_info, MPI_COMM_IDUP_WITH_INFO,
        (MPI_Fint * comm, MPI_Fint *info, MPI_Fint *newcomm, MPI_Fint *handle, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    if (teams.is_quiet) {
        pmpi_comm_idup_with_info_(comm, info, newcomm, handle, error);
        return;
    }
    MPI_Comm own = real_comm(PMPI_Comm_f2c(*comm));
    struct request *request = place_for(own, NULL, newcomm);
    *handle = request_to_fortran(handle_of(request));
    *error = PMPI_Comm_idup_with_info(own, PMPI_Info_f2c(*info), &request->duplicate->comm, &request->data);
}
#endif
