/*
 * Functions as Fortran compilers name them.
 *
 * Libraries hand Fortran's calls on in ways of their own: Open MPI to PMPI_X, past whoever wraps MPI_X in C. So
 * Fortran's entries are wrapped too. What makes its way to C nevertheless is seen to be within another call, and not
 * recorded again. */
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

#endif
