/* Exchanges between all, of which pieces have elements without data.
 *
 * Problem: such a piece may meet one of no elements at the other process. MPI_Ialltoallv of Open MPI 4.1.4 waits for
 * the piece, or sends it, if its count is not 0, and the other process does neither. MPI_Alltoallv and MPI_Alltoallw do
 * not, but are performed by the nonblocking ones here. Idea: the count of each piece without data is 0. Why this way:
 * it means the same for every MPI.
 *
 * The functions return when the operation has ended. */
#ifndef RAMPART_EXCHANGES_H
#define RAMPART_EXCHANGES_H

#include <mpi.h>

int perform_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                      void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                      MPI_Comm comm);
int perform_Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
                      const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
                      const MPI_Datatype recvtypes[], MPI_Comm comm);

#endif
