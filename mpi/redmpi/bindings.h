/* Arguments in other forms: of Fortran as C takes them, and large counts. */
#ifndef RAMPART_BINDINGS_H
#define RAMPART_BINDINGS_H

#include <mpi.h>
#include <stdint.h>

/* A buffer or weights, or what stands for them: MPI_BOTTOM, MPI_UNWEIGHTED and the like are places in memory there. */
void *buffer_from_fortran(void *buffer);

/* Fills a status of the program, unless it wants none. */
void status_to_fortran(const MPI_Status *from, MPI_Fint *status);

/* The team's communicator for that of the world. */
MPI_Fint team_in_fortran(MPI_Fint comm);

/* A large count as a small one; the job ends if it is too large for that. */
int small(int64_t count, const char *function);

#endif
