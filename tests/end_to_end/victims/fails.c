#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call of the MPI fails in the tenth of twenty rounds: in one replica of rank 2, or in all of them. */

static void give_up(MPI_Comm *comm, int *error, ...)
{
    printf("given up: %d\n", *comm == MPI_COMM_WORLD && *error != MPI_SUCCESS);
    MPI_Abort(*comm, 9);
}

int main(int count, char **words)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    const char *how = count > 1 ? words[1] : "";
    int native = number ? atoi(number) : 0, rank, size, sum = 0, flag = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int replica = native / size, is_here = rank == 2 && (strstr(how, "all") || replica == 1);
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    if (handler != MPI_ERRORS_ARE_FATAL)
        printf("another handler\n");
    MPI_Errhandler_free(&handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (strstr(how, "abort")) {
        MPI_Comm_create_errhandler(give_up, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Errhandler_free(&handler);
    }
    for (int round = 0; round < 20; round++) {
        int is_now = is_here && round == 10, sent[2] = { round * rank, 1 }, received[2] = { 0 };
        MPI_Request request;
        /* Too long for its receiver. */
        int length = is_now && strstr(how, "long") ? 2 : 1;
        int target = is_now && strstr(how, "target") ? 99 : (rank + 1) % size;
        /* A message of the next round is taken for this one, and is longer. */
        int tag = is_now && strstr(how, "tag") ? 7 : 5;
        int room = strstr(how, "tag") ? 1 + round % 2 : 1;
        int before = (rank + size - 1) % size, other = 0;
        MPI_Irecv(received, room, MPI_INT, strstr(how, "any") ? MPI_ANY_SOURCE : before, 5, MPI_COMM_WORLD, &request);
        MPI_Send(sent, strstr(how, "tag") ? room : length, MPI_INT, target, tag, MPI_COMM_WORLD);
        /* The receive above fails meanwhile, but nobody has waited for it. */
        for (int i = 0; strstr(how, "any") && i < 100; i++)
            MPI_Sendrecv(&i, 1, MPI_INT, target, 6, &other, 1, MPI_INT, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (strstr(how, "test"))
            while (!flag)
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        else
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        flag = 0;
        sum += received[0];
    }
    if (!rank)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
