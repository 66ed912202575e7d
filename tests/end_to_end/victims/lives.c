/* A program that is killed in the middle, or waits for ever; its argument says which.
 *
 *   rounds    messages round a ring, round by round; each rank writes its rounds to a file, and rank 0 prints them
 *   slow      the same with long pauses
 *   waits     all wait for rank 0, which takes its time; then rank 0 waits for all, and the others for each other */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 40

static int rank, ranks;

static void rounds(useconds_t pause)
{
    char name[16];
    int number = rank, other;
    snprintf(name, sizeof name, "log.%d", rank);
    FILE *log = fopen(name, "w");
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Sendrecv(&number, 1, MPI_INT, (rank + 1) % ranks, 1, &other, 1, MPI_INT, (rank + ranks - 1) % ranks, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        number = other;
        if (rank == 0)
            printf("round %d\n", round);
        fprintf(log, "round %d\n", round);
        fflush(log);
        usleep(pause);
    }
    fclose(log);
}

static void wait_for_ever(void)
{
    int number;
    if (rank == 0)
        usleep(2500000);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "rank 0 goes on\n");
    else
        MPI_Recv(&number, 1, MPI_INT, ranks - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count > 1 && !strcmp(words[1], "waits"))
        wait_for_ever();
    else
        rounds(count > 1 && !strcmp(words[1], "slow") ? 100000 : 10000);
    MPI_Finalize();
    return 0;
}
