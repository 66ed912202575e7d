/* Two ranks that look for messages: "turns": one works while the other does nothing but look;
   "work": both work, and look in between. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, heard, sent;
static MPI_Request receive;

static void hear(void)
{
    MPI_Irecv(&heard, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &receive);
}

static void tell(void)
{
    MPI_Send(&sent, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD);
}

static int look(void)
{
    int there;
    MPI_Test(&receive, &there, MPI_STATUS_IGNORE);
    return there;
}

static void turns(void)
{
    for (int turn = 0; turn < 40; turn++) {
        if (turn % 2 == rank) {
            double end = MPI_Wtime() + 1e-3;
            while (MPI_Wtime() < end)
                ;
            tell();
        } else {
            hear();
            while (!look())
                ;
        }
    }
}

#define MESSAGES 200
#define PIECES_A_MESSAGE 1000

static int messages;

static void next(void)
{
    if (++messages < MESSAGES)
        hear();
}

/* A piece of work is shorter than a look. */
static void work(void)
{
    hear();
    for (int piece = 0; piece < MESSAGES * PIECES_A_MESSAGE; piece++) {
        for (volatile int step = 0; step < 10; step++)
            ;
        if (piece % PIECES_A_MESSAGE == 0)
            tell();
        if (messages < MESSAGES && look())
            next();
    }
    while (messages < MESSAGES) {
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        next();
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc == 2 && strcmp(argv[1], "turns") == 0)
        turns();
    else
        work();
    MPI_Finalize();
    return 0;
}
