#include <mpi.h>
#include <stdio.h>

/* Each rank sends many small messages to the next one, and then the program ends. */
enum { MESSAGES = 300 };

int main(int count, char **words)
{
    int rank, size, sum = 0, sent[MESSAGES], received[MESSAGES];
    MPI_Request requests[2 * MESSAGES];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < MESSAGES; i++) {
        sent[i] = rank + i;
        MPI_Irecv(&received[i], 1, MPI_INT, (rank + size - 1) % size, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < MESSAGES; i++)
        MPI_Isend(&sent[i], 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD, &requests[MESSAGES + i]);
    MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        sum += received[i];
    if (!rank)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
