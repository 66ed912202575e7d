/* See handlers.h. */
#include "handlers.h"

#include <stdlib.h>

#include "deaths.h"
#include "events.h"
#include "leaving.h"
#include "teams.h"

/* One that the program has made in C. Fortran's are left to the MPI. */
struct handler {
    MPI_Errhandler handle;
    MPI_Comm_errhandler_function *function; /* of the program */
    struct handler *next;
};

static struct handler *first;

/* Instead of MPI_ERRORS_ARE_FATAL. */
static MPI_Errhandler fatal = MPI_ERRHANDLER_NULL;

static bool is_keeping;
static int handled;

bool is_handling_error(void)
{
    return handled > 0;
}

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
    if (is_keeping)
        return;
    PMPI_Comm_get_errhandler(*comm, &handle);
    const struct handler *handler = find(handle);
    PMPI_Errhandler_free(&handle);
    handled++;
    if (handler)
        handler->function(&known, code);
    handled--;
}

/* Ends the job as the MPI does, if all replicas of this rank have the error. */
static void end_by_error(MPI_Comm *comm, int *error, ...)
{
    int class = *error;
    if (is_death(*error)) {
        if (is_death_of_ended_job())
            return;
    } else if (is_keeping) {
        return;
    } else {
        handled++;
        PMPI_Error_class(*error, &class);
        leave_with_others(OUT_BY_ERROR, class);
    }
    PMPI_Comm_set_errhandler(*comm, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_call_errhandler(*comm, *error);
}

/* New communicators have the handler of the one that they are made of. */
void begin_handlers(void)
{
    PMPI_Comm_create_errhandler(end_by_error, &fatal);
    PMPI_Comm_set_errhandler(teams.team, fatal);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, fatal);
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, fatal);
}

int test_keeping_error(MPI_Request *request, int *is_done, MPI_Status *status)
{
    is_keeping = true;
    int result = PMPI_Test(request, is_done, status);
    is_keeping = false;
    return result;
}

int wait_keeping_error(MPI_Request *request, MPI_Status *status)
{
    is_keeping = true;
    int result = PMPI_Wait(request, status);
    is_keeping = false;
    return result;
}

int raise_kept_error(MPI_Comm comm, int error)
{
    MPI_Errhandler handle;
    if (error == MPI_SUCCESS || PMPI_Comm_get_errhandler(comm, &handle) != MPI_SUCCESS)
        return error;
    bool was_kept = handle == fatal || find(handle);
    PMPI_Errhandler_free(&handle);
    if (was_kept)
        PMPI_Comm_call_errhandler(comm, error);
    return error;
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

/* The world's error handler is also that of errors that belong to no communicator. */
static int set_handler(MPI_Comm comm, MPI_Errhandler handler)
{
    if (handler == MPI_ERRORS_ARE_FATAL && fatal != MPI_ERRHANDLER_NULL)
        handler = fatal;
    if (comm == MPI_COMM_WORLD)
        PMPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    return PMPI_Comm_set_errhandler(real_comm(comm), handler);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return set_handler(comm, errhandler);
}

#undef MPI_Errhandler_set
int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return set_handler(comm, errhandler);
}

/* The program frees what it gets: only the MPI can give it MPI_ERRORS_ARE_FATAL once more. */
static int get_handler(MPI_Comm comm, MPI_Errhandler *handler)
{
    int result = PMPI_Comm_get_errhandler(comm, handler);
    if (result != MPI_SUCCESS || fatal == MPI_ERRHANDLER_NULL || *handler != fatal)
        return result;
    PMPI_Errhandler_free(handler);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    result = PMPI_Comm_get_errhandler(comm, handler);
    PMPI_Comm_set_errhandler(comm, fatal);
    return result;
}

int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return get_handler(real_comm(comm), errhandler);
}

#undef MPI_Errhandler_get
int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return get_handler(real_comm(comm), errhandler);
}
