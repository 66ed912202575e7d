/* Messages of several sizes between two ranks, there and back, and the time of each. Prints a line for each size: bytes
 * and microseconds one way. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static char buffer[1 << 20];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(buffer, 1, sizeof buffer);
    for (int bytes = 1; bytes <= 1 << 20; bytes *= 4) {
        int rounds = bytes <= 4096 ? 4000 : bytes <= 65536 ? 1000 : 200;
        double began = 0;
        for (int round = -rounds / 10; round < rounds; round++) {
            if (round == 0)
                began = MPI_Wtime();
            if (rank == 0) {
                MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == 1) {
                MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            }
        }
        if (rank == 0)
            printf("%d %.3f\n", bytes, 1e6 * (MPI_Wtime() - began) / rounds / 2);
    }
    MPI_Finalize();
    return 0;
}
