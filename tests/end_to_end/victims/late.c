#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Rank 0 receives from any source. The message of rank 3 comes late in the last replica, when replica 0 of rank 2 has
 * crashed: which message it is was decided by then, but it is not here, and what another team says of it is. */
int main(int count, char **words)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    int native = number ? atoi(number) : 0, rank, size, sum = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int replica = native / size;
    for (int round = 0; round < 10; round++) {
        int sent = round * rank;
        if (round == 5 && rank == 3 && replica == 2)
            usleep(2500000);
        if (rank == 3)
            MPI_Send(&sent, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        if (round == 5 && rank == 2)
            usleep(500000);
        if (round == 5 && rank == 2 && replica == 0)
            abort();
        if (rank == 2)
            MPI_Send(&sent, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        if (rank < 2) {
            int received;
            MPI_Recv(&received, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += received;
        }
    }
    if (!rank)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
