/* Programs through which an error spreads, as their argument says.
 *
 *   stencil   a field on a grid of processes; each step exchanges the edges with the neighbours
 *   reduce    conjugate gradients: each iteration exchanges edges with two neighbours, and adds up among all
 *   more      how many rounds it does is in memory that it sends
 *   loop, crash, wait   rank 2 notices that it got something wrong, and computes for ever, dies, or waits for what
 *                       nobody sends */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cells of a process in each direction, and steps. */
#define SIDE 3
#define STEPS 24

static int rank, ranks;

/* Whole numbers and odd factors, so that no difference is rounded away. */
static void stencil(void)
{
    static uint32_t field[SIDE + 2][SIDE + 2], next[SIDE + 2][SIDE + 2];
    int dims[2] = { 0, 0 }, periods[2] = { 0, 0 }, up, down, left, right;
    MPI_Comm grid;
    MPI_Datatype column;
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    MPI_Type_vector(SIDE, 1, SIDE + 2, MPI_UINT32_T, &column);
    MPI_Type_commit(&column);
    for (int y = 1; y <= SIDE; y++)
        for (int x = 1; x <= SIDE; x++)
            field[y][x] = (uint32_t)(rank * 1000 + y * 10 + x);
    for (int step = 0; step < STEPS; step++) {
        MPI_Request requests[8];
        MPI_Pcontrol(1);
        MPI_Irecv(&field[0][1], SIDE, MPI_UINT32_T, up, 1, grid, &requests[0]);
        MPI_Irecv(&field[SIDE + 1][1], SIDE, MPI_UINT32_T, down, 2, grid, &requests[1]);
        MPI_Irecv(&field[1][0], 1, column, left, 3, grid, &requests[2]);
        MPI_Irecv(&field[1][SIDE + 1], 1, column, right, 4, grid, &requests[3]);
        MPI_Isend(&field[SIDE][1], SIDE, MPI_UINT32_T, down, 1, grid, &requests[4]);
        MPI_Isend(&field[1][1], SIDE, MPI_UINT32_T, up, 2, grid, &requests[5]);
        MPI_Isend(&field[1][SIDE], 1, column, right, 3, grid, &requests[6]);
        MPI_Isend(&field[1][1], 1, column, left, 4, grid, &requests[7]);
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
        for (int y = 1; y <= SIDE; y++)
            for (int x = 1; x <= SIDE; x++)
                next[y][x] = 3 * field[y][x] + 5 * field[y - 1][x] + 7 * field[y + 1][x] + 9 * field[y][x - 1] +
                             11 * field[y][x + 1];
        for (int y = 1; y <= SIDE; y++)
            memcpy(&field[y][1], &next[y][1], SIDE * sizeof(uint32_t));
    }
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
}

/* The matrix has 2.5 in its diagonal and -1 beside it. The two sums of an iteration go into one operation. */
static void reduce(void)
{
    enum { CELLS = 8 };
    double x[CELLS] = { 0 }, r[CELLS], p[CELLS + 2] = { 0 }, q[CELLS], old = 0;
    int before = rank ? rank - 1 : MPI_PROC_NULL, after = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    for (int i = 0; i < CELLS; i++)
        p[i + 1] = r[i] = 1 + 0.1 * rank + 0.01 * i;
    for (int i = 0; i < CELLS; i++)
        old += r[i] * r[i];
    MPI_Allreduce(MPI_IN_PLACE, &old, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int step = 0; step < 12; step++) {
        double sums[2] = { 0, 0 };
        MPI_Sendrecv(&p[1], 1, MPI_DOUBLE, before, 1, &p[CELLS + 1], 1, MPI_DOUBLE, after, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&p[CELLS], 1, MPI_DOUBLE, after, 2, &p[0], 1, MPI_DOUBLE, before, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < CELLS; i++) {
            q[i] = 2.5 * p[i + 1] - p[i] - p[i + 2];
            sums[0] += p[i + 1] * q[i];
            sums[1] += q[i] * q[i];
        }
        MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        double alpha = old / sums[0], now = alpha * alpha * sums[1] - old;
        for (int i = 0; i < CELLS; i++) {
            x[i] += alpha * p[i + 1];
            r[i] -= alpha * q[i];
            p[i + 1] = r[i] + now / old * p[i + 1];
        }
        old = now;
    }
    if (rank == 0)
        printf("%.6f\n", x[0]);
}

/* Each process sends a number to the next one, by which that could go wrong. */
static void ring(const char *how)
{
    uint32_t sent = 17, got = 0;
    for (int round = 0; round < 6; round++) {
        MPI_Sendrecv(&sent, 1, MPI_UINT32_T, (rank + 1) % ranks, 5, &got, 1, MPI_UINT32_T, (rank + ranks - 1) % ranks,
                     5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got == 17 || rank != 2)
            continue;
        if (!strcmp(how, "crash"))
            raise(11);
        if (!strcmp(how, "wait"))
            MPI_Recv(&got, 1, MPI_UINT32_T, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (volatile int forever = 1; forever;)
            ;
    }
}

static void more(void)
{
    uint32_t rounds = 6, got;
    for (uint32_t round = 0; round < rounds; round++)
        MPI_Sendrecv(&rounds, 1, MPI_UINT32_T, (rank + 1) % ranks, 5, &got, 1, MPI_UINT32_T, (rank + ranks - 1) % ranks,
                     5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "stencil";
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!strcmp(how, "stencil"))
        stencil();
    else if (!strcmp(how, "reduce"))
        reduce();
    else if (!strcmp(how, "more"))
        more();
    else
        ring(how);
    MPI_Finalize();
    return 0;
}
