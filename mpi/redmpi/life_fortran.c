/* The calls of life.c in Fortran's form, where the MPI does more for Fortran, or the arguments are not those of C. */
#include <string.h>

#include "bindings.h"
#include "fortran.h"
#include "drops.h"
#include "life.h"
#include "requests.h"
#include "teams.h"

FORTRAN(mpi_init, MPI_INIT, (MPI_Fint * error))
{
    ERROR_IS_OPTIONAL(error);
    pmpi_init_(error);
    if (*error == MPI_SUCCESS)
        begin_replica();
}

FORTRAN(mpi_init_thread, MPI_INIT_THREAD, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Fint most = *required > MPI_THREAD_SERIALIZED ? MPI_THREAD_SERIALIZED : *required;
    pmpi_init_thread_(&most, provided, error);
    if (*error == MPI_SUCCESS)
        begin_replica();
}

FORTRAN(mpi_finalize, MPI_FINALIZE, (MPI_Fint * error))
{
    ERROR_IS_OPTIONAL(error);
    end_replica();
    if (teams_out())
        *error = finalize_mpi();
    else
        pmpi_finalize_(error);
}

FORTRAN(mpi_abort, MPI_ABORT, (MPI_Fint * comm, MPI_Fint *code, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    *error = MPI_Abort(PMPI_Comm_f2c(*comm), *code);
}

FORTRAN(mpi_cancel, MPI_CANCEL, (MPI_Fint * request, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Request own = request_from_fortran(*request);
    *error = MPI_Cancel(&own);
}

/* A string of Fortran is filled with blanks, and its length comes last. */
FORTRAN(mpi_get_processor_name, MPI_GET_PROCESSOR_NAME,
        (char *name, MPI_Fint *length, MPI_Fint *error, size_t room))
{
    ERROR_IS_OPTIONAL(error);
    char own[MPI_MAX_PROCESSOR_NAME];
    int used;
    *error = MPI_Get_processor_name(own, &used);
    *length = used;
    memset(name, ' ', room);
    memcpy(name, own, (size_t)used < room ? (size_t)used : room);
}

/* Attributes of Fortran are not those of C. What the MPI knows only of the world is found there. */
#define ATTRIBUTE(name, capitals)                                                                               \
    FORTRAN(name, capitals, (MPI_Fint * comm, MPI_Fint *key, void *value, MPI_Fint *flag, MPI_Fint *error)) \
    {                                                                                                           \
        ERROR_IS_OPTIONAL(error);                                                                               \
        MPI_Fint team = team_in_fortran(*comm);                                                                 \
        p##name##_(&team, key, value, flag, error);                                                             \
        if (*error == MPI_SUCCESS && !*flag && team != *comm)                                                   \
            p##name##_(comm, key, value, flag, error);                                                          \
    }
ATTRIBUTE(mpi_comm_get_attr, MPI_COMM_GET_ATTR)
ATTRIBUTE(mpi_attr_get, MPI_ATTR_GET)

/* Functions that return a number. */
#define TIME(name, capitals, of_c)                          \
    double name##_(void)                                    \
    {                                                       \
        return of_c();                                      \
    }                                                       \
    double name(void) __attribute__((alias(#name "_")));    \
    double name##__(void) __attribute__((alias(#name "_"))); \
    double capitals(void) __attribute__((alias(#name "_"))); \
    double name##_f08_(void) __attribute__((alias(#name "_")));
TIME(mpi_wtime, MPI_WTIME, MPI_Wtime)
TIME(mpi_wtick, MPI_WTICK, MPI_Wtick)
