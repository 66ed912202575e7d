/* The names that Fortran compilers give to functions.
 *
 * Libraries forward Fortran's calls in different ways: Open MPI calls PMPI_X, and so bypasses a wrapper of MPI_X in
 * C. So Fortran's entry points are wrapped too. A call that does reach C is recognised as nested, and not recorded
 * again. */
#ifndef RAMPART_FORTRAN_H
#define RAMPART_FORTRAN_H

#include <mpi.h>

/* Words of a status in Fortran. */
#define FORTRAN_STATUS ((int)(sizeof(MPI_Status) / sizeof(MPI_Fint)))

/* A function under the four names that compilers give it: mpi_x_, mpi_x, mpi_x__ and MPI_X. The library's own is
 * pmpi_x_; a program without Fortran has none. */
#define FORTRAN(name, capitals, parameters)                 \
    void p##name##_ parameters __attribute__((weak));       \
    void name##_ parameters;                                \
    void name parameters __attribute__((alias(#name "_"))); \
    void name##__ parameters __attribute__((alias(#name "_"))); \
    void capitals parameters __attribute__((alias(#name "_"))); \
    void name##_ parameters

/* Requests between Fortran and C; each library has its own. */
MPI_Request request_from_fortran(MPI_Fint number);
MPI_Fint request_to_fortran(MPI_Request handle);

#endif
