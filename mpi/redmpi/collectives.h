/* Collective operations.
 *
 * Problem: a collective operation is many messages inside the MPI, which nobody compares. Idea: the team performs it at
 * the full speed of the MPI; then each replica compares what it received with what the replicas before it on the ring
 * received. Why this way: Fiala's linear operations, made of compared messages, are slow, and his module of Open MPI is
 * for one library [Fiala15, 3.3.3]. A wrong contribution shows in what comes of it, before the program sees it.
 *
 * The wrappers are generated: each describes its operation by the function of its name, which takes the arguments that
 * it needs by their names. */
#ifndef RAMPART_COLLECTIVES_H
#define RAMPART_COLLECTIVES_H

#include "compare.h"
#include "requests.h"

/* What a process gives and gets. */
struct transfer {
    const char *name;
    struct shadow *shadow;
    struct region input;
    struct region only; /* the output, if it is one piece */
    struct region *outputs;
    int count; /* of outputs */
};

/* Before the operation: sends pending decisions, and injects flips into the input. */
void before_transfer(struct transfer *transfer, const char *name, MPI_Comm comm);

/* After it: compares the output. */
void after_transfer(struct transfer *transfer);

/* For operations that end later: the program's handle. */
MPI_Request transfer_request(const struct transfer *transfer, MPI_Request native);

/* It has ended: compares its output. */
void end_transfer_request(struct request *request);

void describe_Barrier(struct transfer *transfer);
void describe_Bcast(struct transfer *transfer, void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
void describe_Gather(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                     void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
void describe_Gatherv(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                      void *recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype, int root,
                      MPI_Comm comm);
void describe_Scatter(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                      void *recvbuf, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
void describe_Scatterv(struct transfer *transfer, void *recvbuf, int recvcount, MPI_Datatype recvtype, int root,
                       MPI_Comm comm);
void describe_Allgather(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                        void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Allgatherv(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                         void *recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                         MPI_Comm comm);
void describe_Alltoall(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                       void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Alltoallv(struct transfer *transfer, void *recvbuf, const int recvcounts[], const int rdispls[],
                        MPI_Datatype recvtype, MPI_Comm comm);
void describe_Alltoallw(struct transfer *transfer, void *recvbuf, const int recvcounts[], const int rdispls[],
                        const MPI_Datatype recvtypes[], MPI_Comm comm);
void describe_Reduce(struct transfer *transfer, const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                     int root, MPI_Comm comm);
void describe_Allreduce(struct transfer *transfer, const void *sendbuf, void *recvbuf, int count,
                        MPI_Datatype datatype);
void describe_Reduce_scatter(struct transfer *transfer, const void *sendbuf, void *recvbuf, const int recvcounts[],
                             MPI_Datatype datatype, MPI_Comm comm);
void describe_Reduce_scatter_block(struct transfer *transfer, const void *sendbuf, void *recvbuf, int recvcount,
                                   MPI_Datatype datatype, MPI_Comm comm);
void describe_Exscan(struct transfer *transfer, const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype,
                     MPI_Comm comm);

void describe_Neighbor_allgather(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                 void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Neighbor_allgatherv(struct transfer *transfer, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                  void *recvbuf, const int recvcounts[], const int displs[], MPI_Datatype recvtype,
                                  MPI_Comm comm);
void describe_Neighbor_alltoall(struct transfer *transfer, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                                MPI_Comm comm);
void describe_Neighbor_alltoallv(struct transfer *transfer, void *recvbuf, const int recvcounts[], const int rdispls[],
                                 MPI_Datatype recvtype, MPI_Comm comm);
void describe_Neighbor_alltoallw(struct transfer *transfer, void *recvbuf, const int recvcounts[],
                                 const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);

#define describe_Scan describe_Allreduce
#define describe_Ibarrier describe_Barrier
#define describe_Ibcast describe_Bcast
#define describe_Igather describe_Gather
#define describe_Igatherv describe_Gatherv
#define describe_Iscatter describe_Scatter
#define describe_Iscatterv describe_Scatterv
#define describe_Iallgather describe_Allgather
#define describe_Iallgatherv describe_Allgatherv
#define describe_Ialltoall describe_Alltoall
#define describe_Ialltoallv describe_Alltoallv
#define describe_Ialltoallw describe_Alltoallw
#define describe_Ireduce describe_Reduce
#define describe_Iallreduce describe_Allreduce
#define describe_Iscan describe_Allreduce
#define describe_Ireduce_scatter describe_Reduce_scatter
#define describe_Ireduce_scatter_block describe_Reduce_scatter_block
#define describe_Iexscan describe_Exscan
#define describe_Ineighbor_allgather describe_Neighbor_allgather
#define describe_Ineighbor_allgatherv describe_Neighbor_allgatherv
#define describe_Ineighbor_alltoall describe_Neighbor_alltoall
#define describe_Ineighbor_alltoallv describe_Neighbor_alltoallv
#define describe_Ineighbor_alltoallw describe_Neighbor_alltoallw

#endif
