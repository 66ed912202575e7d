/* See exchanges.h. */
#include "exchanges.h"

#include <stdlib.h>
#include <string.h>

#include "collectives.h"
#include "events.h"
#include "requests.h"

static bool has_data(MPI_Datatype type)
{
    MPI_Count bytes;
    PMPI_Type_size_x(type, &bytes);
    return bytes != 0;
}

/* The counts, of which those of pieces without data are 0; `copy` is to be freed. `step` is 0 if all have one type. */
static const int *counts_of_data(const int counts[], const MPI_Datatype types[], int step, int pieces, int **copy)
{
    *copy = NULL;
    for (int i = 0; i < pieces; i++) {
        if (!counts[i] || has_data(types[i * step]))
            continue;
        if (!*copy) {
            *copy = malloc((size_t)pieces * sizeof **copy);
            if (!*copy)
                stop_job("no memory for %d pieces of a collective operation", pieces);
            memcpy(*copy, counts, (size_t)pieces * sizeof **copy);
        }
        (*copy)[i] = 0;
    }
    return *copy ? *copy : counts;
}

/* The same for what is sent, of which MPI ignores the counts if it lies where the rest will come. */
static const int *counts_to_send(const void *buffer, const int counts[], const MPI_Datatype types[], int step,
                                 int pieces, int **copy)
{
    *copy = NULL;
    return buffer == MPI_IN_PLACE ? counts : counts_of_data(counts, types, step, pieces, copy);
}

static int end(int result, MPI_Request *request, int *sent, int *got)
{
    if (result == MPI_SUCCESS)
        result = complete(request, MPI_STATUS_IGNORE);
    free(sent);
    free(got);
    return result;
}

int perform_Alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                      void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                      MPI_Comm comm)
{
    MPI_Request request;
    int *sent, *got, pieces = pieces_of(comm, false, true);
    sendcounts = counts_to_send(sendbuf, sendcounts, &sendtype, 0, pieces, &sent);
    recvcounts = counts_of_data(recvcounts, &recvtype, 0, pieces, &got);
    int result = PMPI_Ialltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
                                 &request);
    return end(result, &request, sent, got);
}

int perform_Alltoallw(const void *sendbuf, const int sendcounts[], const int sdispls[],
                      const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[], const int rdispls[],
                      const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    MPI_Request request;
    int *sent, *got, pieces = pieces_of(comm, false, true);
    sendcounts = counts_to_send(sendbuf, sendcounts, sendtypes, 1, pieces, &sent);
    recvcounts = counts_of_data(recvcounts, recvtypes, 1, pieces, &got);
    int result = PMPI_Ialltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                                 comm, &request);
    return end(result, &request, sent, got);
}
