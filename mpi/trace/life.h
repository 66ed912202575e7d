/* From MPI_Init to MPI_Finalize, and the creation of communicators. */
#ifndef RAMPART_LIFE_H
#define RAMPART_LIFE_H

#include <mpi.h>

/* Records the members of a communicator, by ranks of MPI_COMM_WORLD. */
void tell_communicator(MPI_Comm comm);

#endif
