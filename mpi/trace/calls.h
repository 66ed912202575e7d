/* The records of calls, each written when its call is over.
 *
 * A function MPI_X is recorded if after_X is declared here. The wrappers around MPI_X, for C and for Fortran, are
 * generated from the installed mpi.h: they pass on the arguments of after_X, found by their names in the standard,
 * or by their type where mpi.h has only one of that type under another name. Nothing else about MPI_X must be known
 * here, and differences between libraries never are.
 *
 * Of the counts that a rank passes, after_X takes those that are valid even with MPI_IN_PLACE. */
#ifndef RAMPART_CALLS_H
#define RAMPART_CALLS_H

#include <mpi.h>

/* Communicators and requests are numbers in one library and pointers in another. */
#define HANDLE(handle) ((uint64_t)(uintptr_t)(handle))

/* Messages. A send of another mode is recorded as a send: its waiting time depends on the simulated network. */
void after_Send(int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
#define after_Bsend after_Send
#define after_Rsend after_Send
#define after_Ssend after_Send
void after_Isend(int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request);
#define after_Ibsend after_Isend
#define after_Irsend after_Isend
#define after_Issend after_Isend
void after_Send_init(int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request);
#define after_Bsend_init after_Send_init
#define after_Rsend_init after_Send_init
#define after_Ssend_init after_Send_init
void after_Recv(int count, MPI_Datatype datatype, int source, MPI_Comm comm, MPI_Status *status);
void after_Irecv(int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request);
void after_Recv_init(int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request);
void after_Probe(void);
void after_Iprobe(int *flag);
void after_Sendrecv(int sendcount, MPI_Datatype sendtype, int dest, int sendtag, int recvcount, MPI_Datatype recvtype,
                    int source, MPI_Comm comm, MPI_Status *status);
void after_Sendrecv_replace(int count, MPI_Datatype datatype, int dest, int sendtag, int source, MPI_Comm comm,
                            MPI_Status *status);

/* Collectives. */
void after_Barrier(MPI_Comm comm);
void after_Bcast(int count, MPI_Datatype datatype, int root, MPI_Comm comm);
void after_Reduce(int count, MPI_Datatype datatype, int root, MPI_Comm comm);
void after_Allreduce(int count, MPI_Datatype datatype, MPI_Comm comm);
void after_Scan(int count, MPI_Datatype datatype, MPI_Comm comm);
#define after_Exscan after_Scan
void after_Gather(int sendcount, MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
void after_Gatherv(int sendcount, MPI_Datatype sendtype, const int recvcounts[], MPI_Datatype recvtype, int root,
                   MPI_Comm comm);
void after_Scatter(int sendcount, MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm);
void after_Scatterv(const int sendcounts[], MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, int root,
                    MPI_Comm comm);
void after_Allgather(int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void after_Allgatherv(const int recvcounts[], MPI_Datatype recvtype, MPI_Comm comm);
void after_Alltoall(int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
void after_Alltoallv(const int recvcounts[], MPI_Datatype recvtype, MPI_Comm comm);
void after_Reduce_scatter(const int recvcounts[], MPI_Datatype datatype, MPI_Comm comm);
void after_Reduce_scatter_block(int recvcount, MPI_Datatype datatype, MPI_Comm comm);

/* New communicators. */
void after_Comm_dup(MPI_Comm *newcomm);
#define after_Comm_create after_Comm_dup
#define after_Comm_create_group after_Comm_dup
#define after_Comm_dup_with_info after_Comm_dup
#define after_Comm_split after_Comm_dup
#define after_Comm_split_type after_Comm_dup
#define after_Cart_create after_Comm_dup
#define after_Cart_sub after_Comm_dup
#define after_Dist_graph_create after_Comm_dup
#define after_Dist_graph_create_adjacent after_Comm_dup
#define after_Graph_create after_Comm_dup

/* A function that communicates and is not recorded: its time is the program's, and its name is recorded. */
void after_other(const char *name);

#endif
