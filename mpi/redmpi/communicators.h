/* Communicators of the program. */
#ifndef RAMPART_COMMUNICATORS_H
#define RAMPART_COMMUNICATORS_H

#include <mpi.h>

/* All members are about to make a communicator out of this one, a window, or the like. They wait for each other here
 * first, where receives go on; while the MPI waits, they do not. */
void meet(MPI_Comm comm);

/* The MPI has made a communicator: of the program, which gets it now. */
void after_new_communicator(MPI_Comm comm);

#endif
