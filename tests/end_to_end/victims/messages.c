/* A program that talks in most ways that MPI has, on four ranks, and checks what it hears. With an argument, its
 * last rank kills itself in the middle. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 3

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static int rank, ranks, after, before;

/* Each hears from all others, from whoever comes first. */
static void from_anyone(void)
{
    int sum = 0, got;
    MPI_Request sends[64];
    for (int to = 0, i = 0; to < ranks; to++)
        if (to != rank)
            MPI_Isend(&rank, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &sends[i++]);
    for (int i = 0; i < ranks - 1; i++) {
        MPI_Status status;
        if (i % 2 == 0) {
            int there = 0;
            while (!there)
                MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
            MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 1, MPI_COMM_WORLD, &status);
        } else {
            MPI_Request request;
            int done = 0;
            MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
            while (!done)
                MPI_Test(&request, &done, &status);
        }
        expect(status.MPI_SOURCE == got, "the status names the sender");
        sum += got;
    }
    MPI_Waitall(ranks - 1, sends, MPI_STATUSES_IGNORE);
    expect(sum == ranks * (ranks - 1) / 2 - rank, "each other rank was heard once");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Round the ring: by persistent requests, by a receive that is cancelled, by an exchange. */
static void ring(MPI_Comm comm)
{
    int out = rank, in = -1, count = 0, indices[2];
    MPI_Request both[2], never;
    MPI_Send_init(&out, 1, MPI_INT, after, 2, comm, &both[0]);
    MPI_Recv_init(&in, 1, MPI_INT, before, 2, comm, &both[1]);
    MPI_Startall(2, both);
    for (int done = 0; done < 2; done += count)
        MPI_Waitsome(2, both, &count, indices, MPI_STATUSES_IGNORE);
    expect(in == before, "a persistent request brings what was sent");
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
    MPI_Irecv(&in, 1, MPI_INT, before, 3, comm, &never);
    MPI_Cancel(&never);
    MPI_Wait(&never, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&out, 1, MPI_INT, before, 4, &in, 1, MPI_INT, after, 4, comm, MPI_STATUS_IGNORE);
    expect(in == after, "an exchange brings what was sent");
    MPI_Sendrecv(&out, 1, MPI_INT, MPI_PROC_NULL, 5, &in, 1, MPI_INT, MPI_PROC_NULL, 5, comm, MPI_STATUS_IGNORE);
}

static void collectives(MPI_Comm comm)
{
    int mine, of, sum = 0, all[64] = {0}, given[64], counts[64], places[64];
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &of);
    for (int i = 0; i < of; i++) {
        given[i] = counts[i] = 1;
        places[i] = i;
    }
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == of * (of - 1) / 2, "an allreduce sums");
    MPI_Bcast(all, 64, MPI_INT, of - 1, comm);
    MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
    MPI_Scatter(all, 1, MPI_INT, &sum, 1, MPI_INT, 0, comm);
    expect(sum == mine, "a scatter undoes a gather");
    all[mine] = mine;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm);
    expect(all[of - 1] == of - 1, "an allgather brings all");
    MPI_Alltoallv(given, counts, places, MPI_INT, all, counts, places, MPI_INT, comm);
    MPI_Reduce_scatter(all, &sum, counts, MPI_INT, MPI_SUM, comm);
    MPI_Scan(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
}

int main(int argc, char **argv)
{
    MPI_Comm half, ring_of_all;
    int turns = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    after = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &turns, 0, &ring_of_all);
    for (int round = 0; round < ROUNDS; round++) {
        from_anyone();
        ring(ring_of_all);
        collectives(MPI_COMM_WORLD);
        collectives(half);
    }
    /* Enough for a block of records, or for a second. The others wait for the last until they are ended. */
    double began = MPI_Wtime();
    for (int i = 0; argc > 1; i++) {
        ring(ring_of_all);
        if (rank == ranks - 1 && (i == 2000 || MPI_Wtime() - began > 3))
            raise(SIGKILL);
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&ring_of_all);
    MPI_Finalize();
    return 0;
}
