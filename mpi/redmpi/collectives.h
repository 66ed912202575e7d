/* Collective operations.
 *
 * Problem: a collective operation is many messages inside the MPI, which nobody compares. Idea: the team performs it at
 * the full speed of the MPI; then each replica compares what it received with what the replicas before it on the ring
 * received. Why this way: Fiala's linear operations, made of compared messages, are slow, and his module of Open MPI is
 * for one library [Fiala15, 3.3.3]. A wrong contribution shows in what comes of it, before the program sees it.
 *
 * The wrappers are generated: each describes its operation by the function of its name, which takes the arguments that
 * it needs by their names. MPI_Ibcast and MPI_Bcast_init are described as MPI_Bcast is. */
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
    MPI_Datatype *types[2]; /* lists that the MPI may need until the end */
};

/* A list of counts or displacements: of int, or of the 64 bits that functions with large counts have. */
struct numbers {
    const void *list;
    size_t width;
};

#define NUMBERS(of) ((struct numbers){ .list = (of), .width = sizeof *(of) })

/* The operation is what was described. */
void name_transfer(struct transfer *transfer, const char *name, MPI_Comm comm);

/* Before the operation: sends pending decisions, and injects flips into the input. */
void before_transfer(const struct transfer *transfer);

/* After it: compares the output. */
void after_transfer(struct transfer *transfer);

/* For operations that end later: the program's handle. */
MPI_Request transfer_request(const struct transfer *transfer, MPI_Request native);

/* The same for one that the program starts again and again. */
MPI_Request persistent_transfer_request(const struct transfer *transfer, MPI_Request native);
int start_transfer_request(struct request *request);

/* It has ended: compares its output. */
void end_transfer_request(struct request *request);

/* Nobody needs it any longer. */
void forget_transfer_request(struct request *request);

/* The MPI may need this list of types until the operation has ended. */
void keep_types(MPI_Request handle, MPI_Datatype *types);

/* How many pieces this process gives or gets in an operation with a type for each: among all, or among neighbours. */
int pieces_of(MPI_Comm comm, bool is_of_neighbors, bool are_sent);

void describe_Barrier(struct transfer *transfer);
void describe_Bcast(struct transfer *transfer, void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                    MPI_Comm comm);
void describe_Gather(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
void describe_Gatherv(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void *recvbuf, struct numbers recvcounts, struct numbers displs, MPI_Datatype recvtype, int root,
                      MPI_Comm comm);
void describe_Scatter(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
void describe_Scatterv(struct transfer *transfer, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                       MPI_Comm comm);
void describe_Allgather(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Allgatherv(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                         void *recvbuf, struct numbers recvcounts, struct numbers displs, MPI_Datatype recvtype,
                         MPI_Comm comm);
void describe_Alltoall(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                       void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Alltoallv(struct transfer *transfer, void *recvbuf, struct numbers recvcounts, struct numbers rdispls,
                        MPI_Datatype recvtype, MPI_Comm comm);
void describe_Alltoallw(struct transfer *transfer, void *recvbuf, struct numbers recvcounts, struct numbers rdispls,
                        const MPI_Datatype recvtypes[], MPI_Comm comm);
void describe_Reduce(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count count,
                     MPI_Datatype datatype, int root, MPI_Comm comm);
void describe_Allreduce(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count count,
                        MPI_Datatype datatype);
void describe_Reduce_scatter(struct transfer *transfer, const void *sendbuf, void *recvbuf, struct numbers recvcounts,
                             MPI_Datatype datatype, MPI_Comm comm);
void describe_Reduce_scatter_block(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                   MPI_Datatype datatype, MPI_Comm comm);
void describe_Exscan(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count count,
                     MPI_Datatype datatype, MPI_Comm comm);

void describe_Neighbor_allgather(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount,
                                 MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                 MPI_Comm comm);
void describe_Neighbor_allgatherv(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount,
                                  MPI_Datatype sendtype, void *recvbuf, struct numbers recvcounts,
                                  struct numbers displs, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Neighbor_alltoall(struct transfer *transfer, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                MPI_Comm comm);
void describe_Neighbor_alltoallv(struct transfer *transfer, void *recvbuf, struct numbers recvcounts,
                                 struct numbers rdispls, MPI_Datatype recvtype, MPI_Comm comm);
void describe_Neighbor_alltoallw(struct transfer *transfer, void *recvbuf, struct numbers recvcounts,
                                 struct numbers rdispls, const MPI_Datatype recvtypes[], MPI_Comm comm);

#define describe_Scan describe_Allreduce

#endif
