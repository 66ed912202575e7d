/* Turns each call of calls.h into a record. */
#include "calls.h"

#include <stdlib.h>

#include "life.h"
#include "record.h"

/* Collectives by their numbers in the file. */
enum collective {
    BARRIER,
    BROADCAST,
    REDUCE,
    GATHER,
    SCATTER,
    ALLREDUCE,
    ALLGATHER,
    ALLTOALL,
    SCAN,
    REDUCE_SCATTER,
};

static uint64_t bytes(int64_t count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    return count > 0 && size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

/* 0: nobody, 1: anybody. */
static void put_peer(int peer)
{
    put(peer == MPI_PROC_NULL ? 0 : peer == MPI_ANY_SOURCE ? 1 : (uint64_t)peer + 2);
}

/* 0: any. */
static void put_tag(int tag)
{
    put(tag == MPI_ANY_TAG ? 0 : (uint64_t)tag + 1);
}

/* The sender, where the program left it open; but nobody stays nobody. */
static int sender(int source, const MPI_Status *status)
{
    return source == MPI_PROC_NULL ? source : status->MPI_SOURCE;
}

static void put_message(MPI_Comm comm, int peer, int tag, uint64_t size)
{
    put_communicator(HANDLE(comm));
    put_peer(peer);
    put_tag(tag);
    put(size);
}

/* A posted message, with its request. */
static void put_asked(enum record record, MPI_Comm comm, int peer, int tag, uint64_t size, MPI_Request request)
{
    worked();
    put_record(record);
    put_message(comm, peer, tag, size);
    put_request(HANDLE(request));
}

void after_Send(int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    put_record(RECORD_SEND);
    put_message(comm, dest, tag, bytes(count, datatype));
}

void after_Isend(int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    put_asked(RECORD_ISEND, comm, dest, tag, bytes(count, datatype), *request);
}

void after_Send_init(int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    put_asked(RECORD_SEND_INIT, comm, dest, tag, bytes(count, datatype), *request);
}

void after_Recv(int count, MPI_Datatype datatype, int source, MPI_Comm comm, MPI_Status *status)
{
    put_record(RECORD_RECV);
    put_message(comm, sender(source, status), status->MPI_TAG, bytes(count, datatype));
}

void after_Irecv(int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    put_asked(RECORD_IRECV, comm, source, tag, bytes(count, datatype), *request);
}

void after_Recv_init(int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    put_asked(RECORD_RECV_INIT, comm, source, tag, bytes(count, datatype), *request);
}

/* The awaited message is received next; there the simulation waits too. */
void after_Probe(void)
{
}

void after_Iprobe(int *flag)
{
    if (*flag)
        worked();
    else
        missed();
}

void after_Sendrecv(int sendcount, MPI_Datatype sendtype, int dest, int sendtag, int recvcount, MPI_Datatype recvtype,
                    int source, MPI_Comm comm, MPI_Status *status)
{
    put_record(RECORD_SENDRECV);
    put_message(comm, dest, sendtag, bytes(sendcount, sendtype));
    put_message(comm, sender(source, status), status->MPI_TAG, bytes(recvcount, recvtype));
}

void after_Sendrecv_replace(int count, MPI_Datatype datatype, int dest, int sendtag, int source, MPI_Comm comm,
                            MPI_Status *status)
{
    after_Sendrecv(count, datatype, dest, sendtag, count, datatype, source, comm, status);
}

static void collective(enum collective which, int root, uint64_t size, MPI_Comm comm)
{
    put_record(RECORD_COLLECTIVE);
    put_communicator(HANDLE(comm));
    put(which);
    /* A negative root is that of an intercommunicator, whose collectives are not simulated. */
    put(root < 0 ? 0 : (uint64_t)root);
    put(size);
}

static int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static int ranks_in(MPI_Comm comm)
{
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    return ranks;
}

static int64_t sum(const int counts[], MPI_Comm comm)
{
    int64_t total = 0;
    for (int i = ranks_in(comm) - 1; i >= 0; i--)
        total += counts[i];
    return total;
}

void after_Barrier(MPI_Comm comm)
{
    collective(BARRIER, 0, 0, comm);
}

void after_Bcast(int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    collective(BROADCAST, root, bytes(count, datatype), comm);
}

void after_Reduce(int count, MPI_Datatype datatype, int root, MPI_Comm comm)
{
    collective(REDUCE, root, bytes(count, datatype), comm);
}

void after_Allreduce(int count, MPI_Datatype datatype, MPI_Comm comm)
{
    collective(ALLREDUCE, 0, bytes(count, datatype), comm);
}

void after_Scan(int count, MPI_Datatype datatype, MPI_Comm comm)
{
    collective(SCAN, 0, bytes(count, datatype), comm);
}

void after_Gather(int sendcount, MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    bool at_root = rank_in(comm) == root;
    collective(GATHER, root, at_root ? bytes(recvcount, recvtype) : bytes(sendcount, sendtype), comm);
}

void after_Gatherv(int sendcount, MPI_Datatype sendtype, const int recvcounts[], MPI_Datatype recvtype, int root,
                   MPI_Comm comm)
{
    bool at_root = rank_in(comm) == root;
    collective(GATHER, root, at_root ? bytes(recvcounts[root], recvtype) : bytes(sendcount, sendtype), comm);
}

void after_Scatter(int sendcount, MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    bool at_root = rank_in(comm) == root;
    collective(SCATTER, root, at_root ? bytes(sendcount, sendtype) : bytes(recvcount, recvtype), comm);
}

void after_Scatterv(const int sendcounts[], MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, int root,
                    MPI_Comm comm)
{
    bool at_root = rank_in(comm) == root;
    collective(SCATTER, root, at_root ? bytes(sendcounts[root], sendtype) : bytes(recvcount, recvtype), comm);
}

void after_Allgather(int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    collective(ALLGATHER, 0, bytes(recvcount, recvtype), comm);
}

void after_Allgatherv(const int recvcounts[], MPI_Datatype recvtype, MPI_Comm comm)
{
    collective(ALLGATHER, 0, bytes(recvcounts[rank_in(comm)], recvtype), comm);
}

void after_Alltoall(int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    collective(ALLTOALL, 0, bytes((int64_t)recvcount * ranks_in(comm), recvtype), comm);
}

void after_Alltoallv(const int recvcounts[], MPI_Datatype recvtype, MPI_Comm comm)
{
    collective(ALLTOALL, 0, bytes(sum(recvcounts, comm), recvtype), comm);
}

void after_Reduce_scatter(const int recvcounts[], MPI_Datatype datatype, MPI_Comm comm)
{
    collective(REDUCE_SCATTER, 0, bytes(sum(recvcounts, comm), datatype), comm);
}

void after_Reduce_scatter_block(int recvcount, MPI_Datatype datatype, MPI_Comm comm)
{
    collective(REDUCE_SCATTER, 0, bytes((int64_t)recvcount * ranks_in(comm), datatype), comm);
}

void after_Comm_dup(MPI_Comm *newcomm)
{
    if (*newcomm != MPI_COMM_NULL)
        tell_communicator(*newcomm);
}

void after_other(const char *name)
{
    put_record(RECORD_OTHER);
    put_text(name);
}
