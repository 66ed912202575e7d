/* A get that MPI_Win_complete says is complete, and that is not: MPICH 4.0.2 with UCX 1.13.1, on one node.
 *
 *   mpicc.mpich -o early_get early_get.c && mpirun.mpich -n 3 ./early_get     prints "got 0, not 7"
 *
 * Rank 2 sends rank 1 more than it has room for, so that the request of rank 0 must wait in rank 0. Where MPICH waits
 * for all targets, UCX looks only for operations that were sent. So does MPI_Win_flush_all. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static MPI_Group others(int count, const int ranks[])
{
    MPI_Group all, some;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

int main(int count, char **words)
{
    static _Alignas(64) int memory[16];
    int rank, one = 1, got = 0;
    MPI_Win window;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 16; i++)
        memory[i] = 7;
    MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    /* All are connected from now on. */
    MPI_Win_lock_all(0, window);
    MPI_Put(&one, 1, MPI_INT, 1, rank, 1, MPI_INT, window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Win_post(others(2, (int[]){ 0, 2 }), 0, window);
        sleep(1); /* in no call of MPI */
        MPI_Win_wait(window);
    } else {
        MPI_Win_start(others(1, (int[]){ 1 }), 0, window);
        for (int i = 0; i < 1000 && rank == 2; i++)
            MPI_Put(&one, 1, MPI_INT, 1, 2, 1, MPI_INT, window);
        if (rank == 0) {
            usleep(500000);
            MPI_Get(&got, 1, MPI_INT, 1, 8, 1, MPI_INT, window);
        }
        MPI_Win_complete(window);
    }
    if (rank == 0)
        printf(got == 7 ? "got 7\n" : "got %d, not 7\n", got);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
