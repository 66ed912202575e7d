/* Rank 0 sends messages of many kinds to rank 1, which prints a sum of what comes. Replicas whose bits are set in the
 * first argument send wrong ones: every second time all the same, else each another one. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { AHEAD = 300, BIG = 5000, ROWS = 100, COLUMNS = 3, SHORT = 20, MATCHED = 500 };

static int out[AHEAD][BIG], in[2 * BIG], matrix[ROWS][COLUMNS];
static unsigned sum, sent;

/* Fills a message; wrong in some replicas. */
static int *filled(int *data, int count, int stride, int replica, int is_wrong)
{
    for (int i = 0; i < count; i++)
        data[i * stride] = i + (int)sent;
    if (is_wrong)
        data[stride * (sent % 2 ? 7 : 7 + replica)] ^= 1 << 9;
    sent++;
    return data;
}

static void need(int is_so, int code)
{
    if (!is_so)
        MPI_Abort(MPI_COMM_WORLD, code);
}

static void see(const MPI_Status *status, int expected)
{
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    need(count == expected && status->MPI_SOURCE == 0, 2);
    for (int i = 0; i < count; i++)
        sum = sum * 31 + (unsigned)in[i];
}

static void give(int replica, int is_wrong)
{
    MPI_Request requests[AHEAD];
    MPI_Datatype column;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < AHEAD; i++)
        MPI_Isend(filled(out[i], BIG, 1, replica, is_wrong), BIG, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[i]);
    MPI_Ssend(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD);
    MPI_Waitall(AHEAD, requests, MPI_STATUSES_IGNORE);
    MPI_Send(filled(&matrix[0][1], ROWS, COLUMNS, replica, is_wrong), 1, column, 1, 7, MPI_COMM_WORLD);
    MPI_Send(filled(out[0], SHORT, 1, replica, is_wrong), SHORT, MPI_INT, 1, 8, MPI_COMM_WORLD);
    MPI_Send(filled(out[0], MATCHED, 1, replica, is_wrong), MATCHED, MPI_INT, 1, 9, MPI_COMM_WORLD);
    MPI_Type_free(&column);
}

/* The last comes first, and buffers are longer than messages; but one is too short. */
static void take(void)
{
    MPI_Status status;
    MPI_Message message;
    int code;
    MPI_Recv(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < AHEAD; i++) {
        MPI_Recv(in, 2 * BIG, MPI_INT, i % 3 ? 0 : MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
        see(&status, BIG);
    }
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Recv(in, 2 * BIG, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
    see(&status, ROWS);
    MPI_Error_class(MPI_Recv(in, SHORT / 2, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &code);
    need(code == MPI_ERR_TRUNCATE, 3);
    MPI_Mprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in, 2 * BIG, MPI_INT, &message, &status);
    see(&status, MATCHED);
    printf("sum %u\n", sum);
}

int main(int argc, char **argv)
{
    const char *openmpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
    int rank, ranks, mask = argc > 1 ? atoi(argv[1]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int replica = atoi(openmpi ? openmpi : mpich ? mpich : "0") / ranks;
    if (rank == 0)
        give(replica, mask >> replica & 1);
    else if (rank == 1)
        take();
    MPI_Finalize();
    return 0;
}
