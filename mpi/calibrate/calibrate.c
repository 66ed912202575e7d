/*
 * What the messages of this MPI cost between two ranks: the raw times that `rampart project calibrate` makes LogGOPS
 * parameters of.
 *
 * Each line of the output is: what was measured, the size of the messages in bytes, nanoseconds.
 *
 * way     half of a round trip: L + 2 o + (s - 1) G send    the time of the CPU to send one, with so much computing
 * between two that the network is idle: o + (s - 1) O gap     from one to the next where they are sent as fast as
 * they can be: g + (s - 1) G
 *
 * and once, without nanoseconds: eager, the largest size that is sent before its receive is there: S.
 *
 * After Hoefler, Lichei, Rehm, "Low-Overhead LogGP Parameter Assessment for Modern Interconnection Networks" (IPDPS
 * 2007), which measures without synchronised clocks. Rounds go through all of it again and again, so that a
 * disturbance spoils a round and not a parameter. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 20
/* The number of times per round, of which the median counts. */
#define REPEATS 21
#define LARGEST (1 << 20)
/* How long a receive is delayed to see whether the send waits for it: longer than a disturbance, which may delay the
 * send instead. */
#define LATE 2e-2

static const int sizes[] = {1, 256, 1024, 4096, 16384, 65536, 262144, LARGEST};

static char *buffer;
static int rank;

static void to_other(int size)
{
    MPI_Send(buffer, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD);
}

static void from_other(int size)
{
    MPI_Recv(buffer, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

/* Seconds until so many messages, so far apart, and an answer to the last have arrived. The other rank only answers. */
static double answered(int size, int messages, double apart)
{
    double begin = MPI_Wtime();
    for (int i = 0; i < messages; i++) {
        if (rank == 0 && i > 0 && apart > 0)
            compute(apart);
        if (rank == 0)
            to_other(size);
        else
            from_other(size);
    }
    if (rank == 0)
        from_other(size);
    else
        to_other(size);
    return MPI_Wtime() - begin;
}

static int ascending(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static double median(int size, int messages, double apart)
{
    double times[REPEATS];
    for (int i = 0; i < REPEATS; i++)
        times[i] = answered(size, messages, apart);
    qsort(times, REPEATS, sizeof *times, ascending);
    return times[REPEATS / 2];
}

static void tell(const char *what, int size, double seconds)
{
    if (rank == 0)
        printf("%s %d %.3f\n", what, size, seconds * 1e9);
}

static void round_of(int size)
{
    const int row = 16;
    double single = median(size, 1, 0);
    /* Both ranks need the same value, and their own clocks differ. */
    MPI_Bcast(&single, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    tell("way", size, single / 2);
    tell("send", size, (median(size, row, single) - single) / (row - 1) - single);
    tell("gap", size, (median(size, row, 0) - single) / (row - 1));
}

/* Whether a send of this size returns long before its receive begins. */
static int is_eager(int size)
{
    int eager = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        double begin = MPI_Wtime();
        to_other(size);
        eager = MPI_Wtime() - begin < LATE / 2;
    } else {
        compute(LATE);
        from_other(size);
    }
    MPI_Bcast(&eager, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return eager;
}

static int largest_eager(void)
{
    int eager = 0, not_eager = LARGEST + 1;
    while (not_eager - eager > 1) {
        int size = eager + (not_eager - eager) / 2;
        int votes = is_eager(size) + is_eager(size) + is_eager(size);
        if (votes > 1)
            eager = size;
        else
            not_eager = size;
    }
    return eager;
}

int main(int argc, char **argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    buffer = calloc(1, LARGEST);
    if (ranks != 2 || buffer == NULL) {
        if (rank == 0)
            fprintf(stderr, "calibration takes two ranks and a MiB of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int size = 1; size <= LARGEST; size *= 2)
        answered(size, 4, 0);
    int eager = largest_eager();
    if (rank == 0)
        printf("eager %d 0\n", eager);
    for (int i = 0; i < ROUNDS; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            round_of(sizes[j]);
    free(buffer);
    MPI_Finalize();
    return 0;
}
