/* Four ranks in a grid of two by two, and each in a grid of its own. Both are periodic, so that the neighbours on both
 * sides are one process. What goes to the left comes from the right. And all exchange nothing, in two ways of saying so
 * that match. */
#include <mpi.h>
#include <stdio.h>

/* What a process sends in a direction. */
static int word(int rank, int direction)
{
    return 10 * rank + direction + 1;
}

static int wrong;

static void check(const char *what, const int *came, int step, MPI_Comm grid, int dimensions)
{
    for (int i = 0; i < 2 * dimensions; i++) {
        int sides[2];
        MPI_Cart_shift(grid, i / 2, 1, &sides[0], &sides[1]);
        int expected = word(sides[i % 2], i ^ 1);
        if (came[i * step] != expected) {
            printf("%s: %d instead of %d from direction %d\n", what, came[i * step], expected, i);
            wrong++;
        }
    }
}

static void exchange(MPI_Comm grid, int dimensions)
{
    int rank, sent[8], came[8] = { 0 }, counts[4] = { 1, 1, 1, 1 }, places[4] = { 0, 2, 4, 6 };
    MPI_Aint bytes[4];
    MPI_Datatype types[4] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };
    MPI_Comm_rank(grid, &rank);
    for (int i = 0; i < 4; i++) {
        bytes[i] = 2 * i * (MPI_Aint)sizeof(int);
        sent[i] = word(rank, i);
    }
    MPI_Neighbor_alltoall(sent, 1, MPI_INT, came, 1, MPI_INT, grid);
    check("alltoall", came, 1, grid, dimensions);
    for (int i = 0; i < 4; i++)
        sent[2 * i] = word(rank, i);
    MPI_Neighbor_alltoallv(sent, counts, places, MPI_INT, came, counts, places, MPI_INT, grid);
    check("alltoallv", came, 2, grid, dimensions);
    for (int i = 0; i < 8; i++)
        came[i] = 0;
    MPI_Neighbor_alltoallw(sent, counts, bytes, types, came, counts, bytes, types, grid);
    check("alltoallw", came, 2, grid, dimensions);
}

static void exchange_nothing(void)
{
    int rank, sent = 0, came = 0, none[4] = { 0 }, one[4] = { 1, 1, 1, 1 }, places[4] = { 0 };
    MPI_Datatype empty, empties[4], numbers[4] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    for (int i = 0; i < 4; i++)
        empties[i] = empty;
    MPI_Alltoallv(&sent, one, places, empty, &came, none, places, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(&sent, none, places, MPI_INT, &came, one, places, empty, MPI_COMM_WORLD);
    MPI_Alltoallw(&sent, none, places, numbers, &came, one, places, empties, MPI_COMM_WORLD);
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, &came, rank % 2 ? none : one, places,
                  rank % 2 ? MPI_INT : empty, MPI_COMM_WORLD);
    MPI_Type_free(&empty);
}

int main(int argc, char **argv)
{
    const int two[2] = { 2, 2 }, one[1] = { 1 }, periodic[2] = { 1, 1 };
    MPI_Comm grid, ring;
    int rank, all;
    MPI_Init(&argc, &argv);
    MPI_Cart_create(MPI_COMM_WORLD, 2, two, periodic, 0, &grid);
    MPI_Cart_create(MPI_COMM_SELF, 1, one, periodic, 0, &ring);
    exchange(grid, 2);
    exchange(ring, 1);
    exchange_nothing();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", all);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
