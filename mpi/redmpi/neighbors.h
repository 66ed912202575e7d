/* Exchanges with neighbours in a grid of which a dimension has one or two processes and is periodic.
 *
 * Problem: in such a dimension, the neighbours on both sides are the same process, and both pieces for it travel in
 * turn. What goes to its left must come from its right. MPI_Ineighbor_alltoall of Open MPI 4.1.4 takes the first piece
 * for the one from the left. MPI_Neighbor_alltoall does not, but is performed by that one here. Idea: give the MPI the
 * two pieces in the other order. Why this way: it is done only where the MPI needs it, which is tried with a process
 * that is its own neighbour.
 *
 * The functions return when the operation has ended. */
#ifndef RAMPART_NEIGHBORS_H
#define RAMPART_NEIGHBORS_H

#include <mpi.h>

int perform_Neighbor_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                              MPI_Datatype recvtype, MPI_Comm comm);
int perform_Neighbor_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                               void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                               MPI_Comm comm);
int perform_Neighbor_alltoallw(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                               const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                               const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);

#endif
