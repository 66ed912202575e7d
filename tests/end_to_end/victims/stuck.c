#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Replica 0 of rank 2 gives up. Then all ranks wait for each other for ever. */
int main(int count, char **words)
{
    int rank, size, any = 0;
    const char *team = getenv("RAMPART_TEAM");
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 10; round++) {
        MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (round == 5 && rank == 2 && team && !strcmp(team, "0"))
            abort();
    }
    MPI_Recv(&any, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
