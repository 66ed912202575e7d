/* Error handlers of the program.
 *
 * The MPI hands a handler the communicator of the error. That may be the team's, which the program knows as
 * MPI_COMM_WORLD. So one function of ours is the handler for the MPI; it finds the program's by the handle.
 *
 * Fortran's handlers are left to the MPI. */
#include <mpi.h>
#include <stdlib.h>

#include "events.h"
#include "teams.h"

struct handler {
    MPI_Errhandler handle;
    MPI_Comm_errhandler_function *function; /* of the program */
    struct handler *next;
};

static struct handler *first;

static struct handler *find(MPI_Errhandler handle)
{
    struct handler *one = first;
    while (one && one->handle != handle)
        one = one->next;
    return one;
}

/* What else an MPI hands over differs from one to the next: no portable program uses it. */
static void hand_on(MPI_Comm *comm, int *code, ...)
{
    MPI_Errhandler handle;
    MPI_Comm known = *comm == teams.team ? MPI_COMM_WORLD : *comm;
    PMPI_Comm_get_errhandler(*comm, &handle);
    const struct handler *handler = find(handle);
    PMPI_Errhandler_free(&handle);
    if (handler)
        handler->function(&known, code);
}

/* The MPI may use a handle again when no communicator needs the handler that had it. */
static int create(MPI_Comm_errhandler_function *function, MPI_Errhandler *handle)
{
    int result = PMPI_Comm_create_errhandler(hand_on, handle);
    if (result != MPI_SUCCESS)
        return result;
    struct handler *handler = find(*handle);
    if (!handler) {
        handler = malloc(sizeof *handler);
        if (!handler)
            stop_job("no memory for an error handler");
        *handler = (struct handler){ .handle = *handle, .next = first };
        first = handler;
    }
    handler->function = function;
    return MPI_SUCCESS;
}

int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler)
{
    return teams.replicas ? create(function, errhandler) : PMPI_Comm_create_errhandler(function, errhandler);
}

/* Open MPI 4 has it for old binaries, and a macro in its place. */
#undef MPI_Errhandler_create
int MPI_Errhandler_create(MPI_Comm_errhandler_function *function, MPI_Errhandler *errhandler)
{
    return MPI_Comm_create_errhandler(function, errhandler);
}
