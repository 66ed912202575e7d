/* A window that begins at an address that is no multiple of 16: MPICH 4.0.2 of Debian 12 gets from the multiple below.
 *
 *   mpicc.mpich window_base.c -o window_base && mpirun.mpich -n 2 ./window_base
 *
 * prints 10 instead of 12. What lies there may differ between replicas, as in `errors/rma/win_sync_lock_fence`. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    static _Alignas(16) int memory[] = { 10, 11, 12, 13 };
    int got = 0;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Win_create(&memory[2], sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    printf("%d\n", got);
    MPI_Win_free(&window);
    MPI_Finalize();
    return got == memory[2] ? 0 : 1;
}
