/* See neighbors.h. */
#include "neighbors.h"

#include <stdlib.h>

#include "digest.h"
#include "events.h"
#include "requests.h"

/* A process that is its own neighbour on both sides. */
static bool tries_to_cross(void)
{
    const int one = 1;
    int sent[2] = { -1, 1 }, came[2] = { 0 };
    MPI_Comm ring;
    MPI_Request request;
    PMPI_Cart_create(MPI_COMM_SELF, 1, &one, &one, 0, &ring);
    PMPI_Ineighbor_alltoall(sent, 1, MPI_INT, came, 1, MPI_INT, ring, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Comm_free(&ring);
    return came[0] == sent[0];
}

static bool mpi_crosses(void)
{
    static bool is_known, is_so;
    if (!is_known) {
        is_so = tries_to_cross();
        is_known = true;
    }
    return is_so;
}

/* The neighbours on both sides in this dimension are one process. */
static bool is_one(MPI_Comm comm, int dimension)
{
    int before, after;
    PMPI_Cart_shift(comm, dimension, 1, &before, &after);
    return before == after && before != MPI_PROC_NULL;
}

static int dimensions_to_cross(MPI_Comm comm)
{
    int kind, dimensions = 0, crossed = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART)
        PMPI_Cartdim_get(comm, &dimensions);
    for (int i = 0; i < dimensions; i++)
        crossed += is_one(comm, i);
    return crossed && mpi_crosses() ? dimensions : 0;
}

/* Pieces in turn. */
struct pieces {
    MPI_Aint *places; /* in bytes */
    MPI_Datatype *types;
    int *counts;
};

static void set(struct pieces *pieces, int i, int count, MPI_Aint place, MPI_Datatype type)
{
    pieces->counts[i] = count;
    pieces->places[i] = place;
    pieces->types[i] = type;
}

static struct pieces room_for(int count)
{
    struct pieces pieces;
    pieces.places = malloc((size_t)count * sizeof *pieces.places);
    pieces.types = malloc((size_t)count * sizeof *pieces.types);
    pieces.counts = malloc((size_t)count * sizeof *pieces.counts);
    if (!pieces.places || !pieces.types || !pieces.counts)
        stop_job("no memory for %d pieces of a collective operation", count);
    return pieces;
}

static void free_pieces(struct pieces *pieces)
{
    free(pieces->places);
    free(pieces->types);
    free(pieces->counts);
}

static void swap(struct pieces *pieces, int i, int j)
{
    int count = pieces->counts[i];
    MPI_Aint place = pieces->places[i];
    MPI_Datatype type = pieces->types[i];
    set(pieces, i, pieces->counts[j], pieces->places[j], pieces->types[j]);
    set(pieces, j, count, place, type);
}

static int end(int result, MPI_Request *request)
{
    return result == MPI_SUCCESS ? complete(request, MPI_STATUS_IGNORE) : result;
}

static int perform_crossed(const void *sendbuf, struct pieces sent, void *recvbuf, struct pieces got, int dimensions,
                           MPI_Comm comm)
{
    MPI_Request request;
    for (int i = 0; i < dimensions; i++) {
        if (is_one(comm, i))
            swap(&sent, 2 * i, 2 * i + 1);
    }
    int result = end(PMPI_Ineighbor_alltoallw(sendbuf, sent.counts, sent.places, sent.types, recvbuf, got.counts,
                                              got.places, got.types, comm, &request), &request);
    free_pieces(&sent);
    free_pieces(&got);
    return result;
}

int perform_Neighbor_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                              MPI_Datatype recvtype, MPI_Comm comm)
{
    MPI_Request request;
    int dimensions = dimensions_to_cross(comm);
    if (!dimensions)
        return end(PMPI_Ineighbor_alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, &request),
                   &request);
    struct pieces sent = room_for(2 * dimensions);
    struct pieces got = room_for(2 * dimensions);
    MPI_Aint sent_each = extent_of(sendtype) * sendcount, got_each = extent_of(recvtype) * recvcount;
    for (int i = 0; i < 2 * dimensions; i++) {
        set(&sent, i, sendcount, sent_each * i, sendtype);
        set(&got, i, recvcount, got_each * i, recvtype);
    }
    return perform_crossed(sendbuf, sent, recvbuf, got, dimensions, comm);
}

int perform_Neighbor_alltoallv(const void *sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                               void *recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                               MPI_Comm comm)
{
    MPI_Request request;
    int dimensions = dimensions_to_cross(comm);
    if (!dimensions)
        return end(PMPI_Ineighbor_alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                                            recvtype, comm, &request),
                   &request);
    struct pieces sent = room_for(2 * dimensions);
    struct pieces got = room_for(2 * dimensions);
    MPI_Aint sent_extent = extent_of(sendtype), got_extent = extent_of(recvtype);
    for (int i = 0; i < 2 * dimensions; i++) {
        set(&sent, i, sendcounts[i], sent_extent * sdispls[i], sendtype);
        set(&got, i, recvcounts[i], got_extent * rdispls[i], recvtype);
    }
    return perform_crossed(sendbuf, sent, recvbuf, got, dimensions, comm);
}

int perform_Neighbor_alltoallw(const void *sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                               const MPI_Datatype sendtypes[], void *recvbuf, const int recvcounts[],
                               const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    MPI_Request request;
    int dimensions = dimensions_to_cross(comm);
    if (!dimensions)
        return end(PMPI_Ineighbor_alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                            recvtypes, comm, &request),
                   &request);
    struct pieces sent = room_for(2 * dimensions);
    struct pieces got = room_for(2 * dimensions);
    for (int i = 0; i < 2 * dimensions; i++) {
        set(&sent, i, sendcounts[i], sdispls[i], sendtypes[i]);
        set(&got, i, recvcounts[i], rdispls[i], recvtypes[i]);
    }
    return perform_crossed(sendbuf, sent, recvbuf, got, dimensions, comm);
}
