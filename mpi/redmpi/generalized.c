/* See generalized.h. */
#include "generalized.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "events.h"
#include "fortran.h"
#include "teams.h"

/* The program's functions in the form of Fortran, which gets all by address. */
typedef void (*query_in_fortran)(MPI_Aint *state, MPI_Fint *status, MPI_Fint *error);
typedef void (*free_in_fortran)(MPI_Aint *state, MPI_Fint *error);
typedef void (*cancel_in_fortran)(MPI_Aint *state, MPI_Fint *is_complete, MPI_Fint *error);

/* Those of C, or those of Fortran. */
struct generalized {
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *state;
    query_in_fortran query_in_fortran;
    free_in_fortran free_in_fortran;
    cancel_in_fortran cancel_in_fortran;
    MPI_Aint *state_of_fortran; /* the variable of the program: its functions may change it */
    atomic_bool is_complete;
    bool is_freed; /* by the program, while it goes on */
};

bool generalized_is_done(const struct request *request)
{
    return atomic_load(&request->generalized->is_complete);
}

static int ask_for_status(struct generalized *own, MPI_Status *status)
{
    if (!own->query_in_fortran)
        return own->query(own->state, status);
    MPI_Fint in_fortran[FORTRAN_STATUS], error = MPI_SUCCESS;
    PMPI_Status_c2f(status, in_fortran);
    own->query_in_fortran(own->state_of_fortran, in_fortran, &error);
    PMPI_Status_f2c(in_fortran, status);
    return error;
}

int end_generalized(struct request *request)
{
    for (unsigned looks = 0; !generalized_is_done(request); looks++)
        wait_on(looks);
    request->status.MPI_ERROR = MPI_SUCCESS;
    return ask_for_status(request->generalized, &request->status);
}

int cancel_generalized(struct request *request)
{
    struct generalized *own = request->generalized;
    MPI_Fint is_complete = generalized_is_done(request), error = MPI_SUCCESS;
    if (!own->cancel_in_fortran)
        return own->cancel(own->state, is_complete);
    own->cancel_in_fortran(own->state_of_fortran, &is_complete, &error);
    return error;
}

int free_generalized(struct request *request)
{
    struct generalized *own = request->generalized;
    MPI_Fint error = MPI_SUCCESS;
    if (!generalized_is_done(request)) {
        own->is_freed = true;
        return MPI_SUCCESS;
    }
    if (own->free_in_fortran)
        own->free_in_fortran(own->state_of_fortran, &error);
    else
        error = own->free(own->state);
    free(own);
    free_request(request);
    return error;
}

static MPI_Request begin(struct generalized with)
{
    struct request *request = new_request(REQUEST_GENERALIZED);
    request->generalized = malloc(sizeof with);
    if (!request->generalized)
        stop_job("no memory for a generalized request");
    *request->generalized = with;
    request->is_active = true;
    return handle_of(request);
}

int MPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                       MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
    if (teams.is_quiet)
        return PMPI_Grequest_start(query_fn, free_fn, cancel_fn, extra_state, request);
    *request = begin((struct generalized){ .query = query_fn,
                                           .free = free_fn,
                                           .cancel = cancel_fn,
                                           .state = extra_state });
    return MPI_SUCCESS;
}

FORTRAN(mpi_grequest_start, MPI_GREQUEST_START,
        (query_in_fortran query, free_in_fortran free_state, cancel_in_fortran cancel, MPI_Aint *state,
         MPI_Fint *request, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    if (teams.is_quiet) {
        pmpi_grequest_start_(query, free_state, cancel, state, request, error);
        return;
    }
    *error = MPI_SUCCESS;
    *request = request_to_fortran(begin((struct generalized){ .query_in_fortran = query,
                                                              .free_in_fortran = free_state,
                                                              .cancel_in_fortran = cancel,
                                                              .state_of_fortran = state }));
}

int MPI_Grequest_complete(MPI_Request request)
{
    struct request *own = request_of(request);
    if (!own)
        return PMPI_Grequest_complete(request);
    if (own->kind != REQUEST_GENERALIZED)
        return MPI_ERR_REQUEST;
    bool is_freed = own->generalized->is_freed;
    atomic_store(&own->generalized->is_complete, true);
    return is_freed ? free_generalized(own) : MPI_SUCCESS;
}
