/* Ranks in a ring. Replica 1 of rank 1 sends as many wrong numbers as the argument says, as bad memory would; or it
 * dies in the middle ("dies"), or all replicas of rank 1 do ("all-die"). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 20

int main(int argc, char **argv)
{
    int rank, ranks;
    long sum = 0, all;
    const char *team = getenv("RAMPART_TEAM");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int is_victim = rank == 1 && team && !strcmp(team, "1"), wrong = is_victim ? atoi(argv[1]) : 0;
    int dies = !strcmp(argv[1], "dies") ? is_victim : !strcmp(argv[1], "all-die") && rank == 1;
    for (int round = 0; round < ROUNDS; round++) {
        long mine = 100 * rank + round + (round < wrong), other;
        MPI_Sendrecv(&mine, 1, MPI_LONG, (rank + 1) % ranks, 3, &other, 1, MPI_LONG, (rank + ranks - 1) % ranks, 3,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += other;
        if (dies && round == ROUNDS / 2)
            abort();
    }
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sum %ld, %s\n", all, getenv("SET_BEFORE") ? getenv("SET_BEFORE") : "not set");
    MPI_Finalize();
    return 0;
}
