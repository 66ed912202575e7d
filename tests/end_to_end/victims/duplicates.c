/* Communicators that are duplicated several at a time, while others are made. */
#include <mpi.h>
#include <stdio.h>

enum { DUPLICATES = 5 };

int main(int argc, char **argv)
{
    MPI_Comm later[DUPLICATES], now, part;
    MPI_Request requests[DUPLICATES];
    int rank, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < DUPLICATES; i++)
        MPI_Comm_idup(MPI_COMM_WORLD, &later[i], &requests[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &now);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    MPI_Waitall(DUPLICATES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < DUPLICATES; i++) {
        int got = 0, one = 1;
        MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_SUM, later[i]);
        sum += got;
        MPI_Comm_free(&later[i]);
    }
    MPI_Comm_free(&now);
    MPI_Comm_free(&part);
    if (rank == 0)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
