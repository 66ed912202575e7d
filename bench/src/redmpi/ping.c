/* Messages of several sizes between two ranks, there and back, and the time of each. Prints a line for each size: bytes
 * and microseconds one way.
 *
 * Several jobs at once (PING_JOBS) meet in the folder PING_MEETING before each size, and each goes on without measuring
 * until all have measured it: otherwise one would measure while others start, or are done already. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP, GO_ON };

static char buffer[1 << 20];
static int rank;

static void ping_pong(int bytes, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
    }
}

/* Jobs that have come to this place, each of which has its number (PING_JOB). */
static int come(const char *place, int bytes, int jobs)
{
    char path[4096];
    int number = 0;
    for (int i = 0; i < jobs; i++) {
        snprintf(path, sizeof path, "%s/%s.%d.%d", getenv("PING_MEETING"), place, bytes, i);
        number += !access(path, F_OK);
    }
    return number;
}

static void say_come(const char *place, int bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d.%s", getenv("PING_MEETING"), place, bytes, getenv("PING_JOB"));
    close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void meet(int bytes, int jobs)
{
    if (rank == 0) {
        say_come("begin", bytes);
        while (come("begin", bytes, jobs) < jobs)
            usleep(1000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void keep_others_company(int bytes, int jobs)
{
    if (rank == 0)
        say_come("end", bytes);
    for (int state = GO_ON; state == GO_ON;) {
        ping_pong(bytes, 20);
        if (rank == 0)
            state = come("end", bytes, jobs) < jobs ? GO_ON : STOP;
        MPI_Bcast(&state, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int jobs = getenv("PING_JOBS") ? atoi(getenv("PING_JOBS")) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(buffer, 1, sizeof buffer);
    for (int bytes = 1; bytes <= 1 << 20; bytes *= 4) {
        int rounds = bytes <= 4096 ? 20000 : bytes <= 65536 ? 5000 : 500;
        if (jobs > 1)
            meet(bytes, jobs);
        ping_pong(bytes, rounds / 10);
        double began = MPI_Wtime();
        ping_pong(bytes, rounds);
        double took = MPI_Wtime() - began;
        if (jobs > 1)
            keep_others_company(bytes, jobs);
        if (rank == 0)
            printf("%d %.3f\n", bytes, 1e6 * took / rounds / 2);
    }
    MPI_Finalize();
    return 0;
}
