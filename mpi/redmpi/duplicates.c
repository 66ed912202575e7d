/* See duplicates.h. */
#include "duplicates.h"

#include <stdlib.h>

#include "events.h"
#include "history.h"
#include "requests.h"
#include "teams.h"

struct duplicate {
    MPI_Comm comm;
    struct shadow *shadow;
    /* Where the program wants it; one of them is null. */
    MPI_Comm *for_c;
    MPI_Fint *for_fortran;
};

bool duplicate_is_made(const struct request *request)
{
    return shadow_is_made(request->duplicate->shadow);
}

void end_duplicate(struct request *request)
{
    struct duplicate *duplicate = request->duplicate;
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
    struct request *request = new_request(REQUEST_COMMUNICATOR);
    struct duplicate *duplicate = malloc(sizeof *duplicate);
    if (!duplicate)
        stop_job("no memory for a communicator");
    struct shadow *shadow = needed_shadow(comm);
    *duplicate = (struct duplicate){ .comm = MPI_COMM_NULL, .for_c = for_c, .for_fortran = for_fortran };
    duplicate->shadow = shadow_duplicate(shadow, comm);
    record_step(STEP_COMMUNICATOR, shadow->number, 0, 0);
    request->duplicate = duplicate;
    request->is_active = true;
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
