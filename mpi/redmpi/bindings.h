/* Arguments in other forms: of Fortran as C takes them, and large counts. */
#ifndef RAMPART_BINDINGS_H
#define RAMPART_BINDINGS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "standard_abi.h"

/* A buffer or weights, or what stands for them: MPI_BOTTOM, MPI_UNWEIGHTED and the like are places in memory there. */
void *buffer_from_fortran(void *buffer);

/* Fills a status of the program, unless it wants none. */
void status_to_fortran(const MPI_Status *from, MPI_Fint *status);

/* The team's communicator for that of the world. */
MPI_Fint team_in_fortran(MPI_Fint comm);

/* A large number as a small one; the job ends if it is too large for that. */
int small(int64_t number, const char *function);

/* So many elements of a type, or one of a type that is made for that. */
struct elements {
    int count;
    MPI_Datatype type;
    bool is_made;
};

struct elements few(MPI_Count count, MPI_Datatype type);
void forget_few(struct elements *elements);

/* A list of types as C has it. */
MPI_Datatype *types_from_fortran(const MPI_Fint *types, int count);
void forget_types(MPI_Datatype *types);

#endif
