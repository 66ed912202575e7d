/* The names that Fortran compilers give to functions.
 *
 * Libraries forward Fortran's calls in different ways: Open MPI calls PMPI_X, and so bypasses a wrapper of MPI_X in
 * C. So Fortran's entry points are wrapped too. A call that does reach C is recognised as nested, and not recorded
 * again.
 *
 * The module mpi_f08 has entries of its own, mpi_x_f08_. Their handles are structures of one number, so that both kinds
 * take the same; only the error may be missing. Where a buffer comes with a description of its section, in MPICH, the
 * entry is another one, mpi_x_f08ts_: the MPI makes a type for the section and calls MPI_X in C, which is wrapped. */
#ifndef RAMPART_FORTRAN_H
#define RAMPART_FORTRAN_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>

#include "standard_abi.h"

/* Words of a status in Fortran. */
#define FORTRAN_STATUS ((int)(sizeof(MPI_Status) / sizeof(MPI_Fint)))

/* A function under the four names that compilers give it: mpi_x_, mpi_x, mpi_x__ and MPI_X. The library's own is
 * pmpi_x_; a program without Fortran has none. */
#define FORTRAN_77(name, capitals, parameters)                  \
    void p##name##_ parameters __attribute__((weak));           \
    void name##_ parameters;                                    \
    void name parameters __attribute__((alias(#name "_")));     \
    void name##__ parameters __attribute__((alias(#name "_"))); \
    void capitals parameters __attribute__((alias(#name "_"))); \
    void name##_ parameters

/* The same function in the module mpi_f08. The library's own is NEXT, since its other name differs between them. */
#define FORTRAN_2008(name, capitals, parameters) \
    void name##_f08_ parameters;                 \
    void name##_f08_ parameters

#define NEXT(name)                    \
    static __typeof__(&name##_f08_) next; \
    if (!next)                        \
        next = (__typeof__(&name##_f08_))dlsym(RTLD_NEXT, #name "_f08_")

/* Both in one. What stands for no status and for no weights differs between them in MPICH, so this one must not hand it
 * on to the library's own. */
#define FORTRAN(name, capitals, parameters)                        \
    void name##_f08_ parameters __attribute__((alias(#name "_"))); \
    FORTRAN_77(name, capitals, parameters)

/* The first line of such a function: a program of Fortran 2008 need not ask for the error. */
#define ERROR_IS_OPTIONAL(error) \
    MPI_Fint unwanted_error;     \
    error = error ? error : &unwanted_error

/* Whether the program wants no status. */
bool is_status_ignored(const MPI_Fint *status);

/* A status of the program as it is: a call for one request leaves the error in it alone. */
MPI_Status status_from_fortran(const MPI_Fint *status);

/* Requests between Fortran and C; each library has its own. */
MPI_Request request_from_fortran(MPI_Fint number);
MPI_Fint request_to_fortran(MPI_Request handle);

#endif
