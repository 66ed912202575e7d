/* See collectives.h. */
#include "collectives.h"

#include <stdlib.h>

#include "bindings.h"
#include "deaths.h"
#include "decisions.h"
#include "drops.h"
#include "envelopes.h"
#include "events.h"
#include "history.h"
#include "heap.h"
#include "injector.h"
#include "log.h"

/* Tells operations apart. */
static int64_t sum_of(const char *name)
{
    int64_t sum = 0;
    while (*name)
        sum = sum * 31 + *name++;
    return sum;
}

void name_transfer(struct transfer *transfer, const char *name, MPI_Comm comm)
{
    transfer->name = name;
    transfer->shadow = shadow_of(comm);
    if (!transfer->shadow)
        stop_job("%s on a communicator that was made in a way that is not supported", name);
}

void before_transfer(const struct transfer *transfer)
{
    flush_decisions();
    record_step(STEP_COLLECTIVE, transfer->shadow->number, sum_of(transfer->name),
                (int64_t)transfer->input.bytes);
    if (transfer->input.bytes)
        inject(transfer->input.buffer, transfer->input.bytes, transfer->input.type, -1, -1);
}

static void free_outputs(struct transfer *transfer)
{
    if (transfer->outputs != &transfer->only)
        free(transfer->outputs);
}

/* To the teams that compare with this one, and keeps it until they have it. */
static void send_digest(const struct packed *packed, const struct digest *digest)
{
    struct envelope_place *place = next_envelope(teams_beside());
    size_t length = fill_envelope(place->envelope, WHOLE, packed, digest);
    for (int i = 0; i < place->count; i++) {
        place->sends[i] = MPI_REQUEST_NULL;
        if (!is_out(team_after(i + 1)))
            PMPI_Isend(place->envelope, (int)length, MPI_BYTE, team_after(i + 1), TAG_OUTPUT, teams.column,
                       &place->sends[i]);
    }
}

/* Waits for what a team says, unless that is dropped; what the MPI may still write to stays then. */
static bool wait_for_envelope(MPI_Request *receive, int team, int *came)
{
    MPI_Status status;
    bool is_here = false;
    for (unsigned looks = 0; !is_here && !is_out(team); looks++) {
        wait_on(looks);
        is_here = has_ended(receive, team, &status);
    }
    if (is_here)
        PMPI_Get_count(&status, MPI_BYTE, came);
    else
        give_up(receive);
    return is_here;
}

static struct envelope *room_for_envelopes(int count)
{
    struct envelope *envelopes = malloc_as_it_is(sizeof *envelopes * (size_t)(count ? count : 1));
    if (!envelopes)
        stop_job("no memory for what other teams say");
    return envelopes;
}

static void compare_outputs(struct transfer *transfer)
{
    static struct envelope *envelopes;
    const int compared = teams_beside();
    MPI_Request receives[MOST_COMPARED];
    struct testimony testimony = { 0 };
    bool is_lost = false;
    if (!transfer->count)
        return;
    if (!envelopes)
        envelopes = room_for_envelopes(compared);
    struct envelope *room = envelopes;
    for (int i = 0; i < compared; i++)
        PMPI_Irecv(&room[i], sizeof *room, MPI_BYTE, team_before(i + 1), TAG_OUTPUT, teams.column, &receives[i]);
    struct packed packed = pack_regions(transfer->outputs, transfer->count);
    struct digest mine = digest_of(packed.data, packed.bytes);
    if (compared)
        send_digest(&packed, &mine);
    for (int i = 0; i < compared; i++) {
        int came, place = testimony.count;
        if (!wait_for_envelope(&receives[i], team_before(i + 1), &came)) {
            is_lost = true;
            continue;
        }
        testimony.envelopes[place] = &room[i];
        testimony.teams[place] = team_before(i + 1);
        testimony.came[place] = (size_t)came;
        testimony.count++;
    }
    if (is_lost)
        envelopes = NULL;
    compare(transfer->outputs, transfer->count, &packed, &mine, &testimony,
            &(struct origin){ .what = transfer->name, .shadow = transfer->shadow, .peer = -1, .tag = -1 }, NULL);
}

void after_transfer(struct transfer *transfer)
{
    compare_outputs(transfer);
    free_outputs(transfer);
}

static struct request *request_for(const struct transfer *transfer, MPI_Request native)
{
    struct request *request = new_request(REQUEST_COLLECTIVE);
    request->data = native;
    request->shadow = shadow_hold(transfer->shadow);
    request->transfer = malloc(sizeof *request->transfer);
    if (!request->transfer)
        stop_job("no memory for %s", transfer->name);
    *request->transfer = *transfer;
    if (transfer->outputs == &transfer->only)
        request->transfer->outputs = &request->transfer->only;
    keep_type_of(&request->transfer->input);
    for (int i = 0; i < transfer->count; i++)
        keep_type_of(&request->transfer->outputs[i]);
    return request;
}

MPI_Request transfer_request(const struct transfer *transfer, MPI_Request native)
{
    struct request *request = request_for(transfer, native);
    request->is_active = true;
    return handle_of(request);
}

MPI_Request persistent_transfer_request(const struct transfer *transfer, MPI_Request native)
{
    struct request *request = request_for(transfer, native);
    request->is_persistent = true;
    return handle_of(request);
}

int start_transfer_request(struct request *request)
{
    before_transfer(request->transfer);
    request->is_active = true;
    return PMPI_Start(&request->data);
}

void end_transfer_request(struct request *request)
{
    compare_outputs(request->transfer);
    if (!request->is_persistent)
        forget_transfer_request(request);
}

void forget_transfer_request(struct request *request)
{
    struct transfer *transfer = request->transfer;
    drop_type_of(&transfer->input);
    for (int i = 0; i < transfer->count; i++)
        drop_type_of(&transfer->outputs[i]);
    free_outputs(transfer);
    for (int i = 0; i < 2; i++)
        forget_types(transfer->types[i]);
    free(transfer);
}

void keep_types(MPI_Request handle, MPI_Datatype *types)
{
    struct request *request = request_of(handle);
    if (!request || request->kind != REQUEST_COLLECTIVE)
        forget_types(types);
    else
        request->transfer->types[request->transfer->types[0] != NULL] = types;
}

static int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static bool is_between_groups(MPI_Comm comm)
{
    int is;
    PMPI_Comm_test_inter(comm, &is);
    return is;
}

static int size_of(MPI_Comm comm)
{
    int size;
    PMPI_Comm_size(comm, &size);
    return size;
}

/* With how many processes each one exchanges data. */
static int peers_in(MPI_Comm comm)
{
    int peers = size_of(comm);
    if (is_between_groups(comm))
        PMPI_Comm_remote_size(comm, &peers);
    return peers;
}

static bool is_root(int root, MPI_Comm comm)
{
    return is_between_groups(comm) ? root == MPI_ROOT : root == rank_in(comm);
}

/* Whether this process gives to the root, or gets of it. Of two groups, only one does so. */
static bool deals_with_root(int root, MPI_Comm comm)
{
    return !is_between_groups(comm) || (root != MPI_ROOT && root != MPI_PROC_NULL);
}

static void gives(struct transfer *transfer, const void *buffer, size_t count, MPI_Datatype type)
{
    if (buffer != MPI_IN_PLACE)
        transfer->input = region_of(buffer, count, type);
}

static void gets(struct transfer *transfer, void *buffer, size_t count, MPI_Datatype type)
{
    if (buffer == MPI_IN_PLACE)
        return;
    transfer->only = region_of(buffer, count, type);
    transfer->outputs = &transfer->only;
    transfer->count = 1;
}

static int64_t number_at(struct numbers numbers, int place)
{
    return numbers.width == sizeof(int) ? ((const int *)numbers.list)[place] : ((const int64_t *)numbers.list)[place];
}

/* One piece from each process that sends anything: `step` is the number of bytes of a unit of a displacement. */
static void gets_pieces(struct transfer *transfer, void *buffer, struct numbers counts, struct numbers displs,
                        MPI_Aint step, const MPI_Datatype types[], bool is_one_type, int pieces)
{
    transfer->outputs = malloc(sizeof *transfer->outputs * (size_t)pieces);
    if (!transfer->outputs)
        stop_job("no memory for %d pieces of a collective operation", pieces);
    for (int i = 0; i < pieces; i++) {
        struct region piece = region_of((char *)buffer + number_at(displs, i) * step, (size_t)number_at(counts, i),
                                        is_one_type ? types[0] : types[i]);
        if (piece.bytes)
            transfer->outputs[transfer->count++] = piece;
    }
}

/* The processes from which this one gets data, and how many; the caller frees them. MPI_PROC_NULL is none: its place in
 * the output stays as it is. */
static int *sources_in(MPI_Comm comm, int *count)
{
    int kind, others = 0, is_weighted, *sources = NULL;
    *count = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART)
        PMPI_Cartdim_get(comm, count);
    else if (kind == MPI_GRAPH)
        PMPI_Graph_neighbors_count(comm, rank_in(comm), count);
    else if (kind == MPI_DIST_GRAPH)
        PMPI_Dist_graph_neighbors_count(comm, count, &others, &is_weighted);
    int dimensions = *count;
    if (kind == MPI_CART)
        *count *= 2;
    sources = malloc(sizeof *sources * (size_t)(*count + others + 1));
    if (!sources)
        stop_job("no memory for the neighbours of a process");
    if (kind == MPI_CART) {
        for (int i = 0; i < dimensions; i++)
            PMPI_Cart_shift(comm, i, 1, &sources[2 * i], &sources[2 * i + 1]);
    } else if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors(comm, rank_in(comm), *count, sources);
    } else if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors(comm, *count, sources, MPI_UNWEIGHTED, others, sources + *count, MPI_UNWEIGHTED);
    }
    return sources;
}

int pieces_of(MPI_Comm comm, bool is_of_neighbors, bool are_sent)
{
    int kind, given, taken, is_weighted;
    if (!is_of_neighbors)
        return peers_in(comm);
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &taken, &given, &is_weighted);
        return are_sent ? given : taken;
    }
    free(sources_in(comm, &taken));
    return taken;
}

void describe_Barrier(struct transfer *transfer)
{
    (void)transfer;
}

void describe_Bcast(struct transfer *transfer, void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                    MPI_Comm comm)
{
    if (is_root(root, comm))
        gives(transfer, buffer, (size_t)count, datatype);
    else if (deals_with_root(root, comm))
        gets(transfer, buffer, (size_t)count, datatype);
}

void describe_Gather(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    if (deals_with_root(root, comm))
        gives(transfer, sendbuf, (size_t)sendcount, sendtype);
    if (is_root(root, comm))
        gets(transfer, recvbuf, (size_t)recvcount * (size_t)peers_in(comm), recvtype);
}

void describe_Gatherv(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void *recvbuf, struct numbers recvcounts, struct numbers displs, MPI_Datatype recvtype, int root,
                      MPI_Comm comm)
{
    if (deals_with_root(root, comm))
        gives(transfer, sendbuf, (size_t)sendcount, sendtype);
    if (is_root(root, comm))
        gets_pieces(transfer, recvbuf, recvcounts, displs, extent_of(recvtype), &recvtype, true, peers_in(comm));
}

void describe_Scatter(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                      void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    if (is_root(root, comm))
        gives(transfer, sendbuf, (size_t)sendcount * (size_t)peers_in(comm), sendtype);
    if (deals_with_root(root, comm))
        gets(transfer, recvbuf, (size_t)recvcount, recvtype);
}

void describe_Scatterv(struct transfer *transfer, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                       MPI_Comm comm)
{
    if (deals_with_root(root, comm))
        gets(transfer, recvbuf, (size_t)recvcount, recvtype);
}

void describe_Allgather(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                        void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    gives(transfer, sendbuf, (size_t)sendcount, sendtype);
    gets(transfer, recvbuf, (size_t)recvcount * (size_t)peers_in(comm), recvtype);
}

void describe_Allgatherv(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                         void *recvbuf, struct numbers recvcounts, struct numbers displs, MPI_Datatype recvtype,
                         MPI_Comm comm)
{
    gives(transfer, sendbuf, (size_t)sendcount, sendtype);
    gets_pieces(transfer, recvbuf, recvcounts, displs, extent_of(recvtype), &recvtype, true, peers_in(comm));
}

void describe_Alltoall(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                       void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    size_t peers = (size_t)peers_in(comm);
    gives(transfer, sendbuf, (size_t)sendcount * peers, sendtype);
    gets(transfer, recvbuf, (size_t)recvcount * peers, recvtype);
}

void describe_Alltoallv(struct transfer *transfer, void *recvbuf, struct numbers recvcounts, struct numbers rdispls,
                        MPI_Datatype recvtype, MPI_Comm comm)
{
    gets_pieces(transfer, recvbuf, recvcounts, rdispls, extent_of(recvtype), &recvtype, true, peers_in(comm));
}

void describe_Alltoallw(struct transfer *transfer, void *recvbuf, struct numbers recvcounts, struct numbers rdispls,
                        const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    gets_pieces(transfer, recvbuf, recvcounts, rdispls, 1, recvtypes, false, peers_in(comm));
}

void describe_Reduce(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count count,
                     MPI_Datatype datatype, int root, MPI_Comm comm)
{
    if (deals_with_root(root, comm))
        gives(transfer, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, (size_t)count, datatype);
    if (is_root(root, comm))
        gets(transfer, recvbuf, (size_t)count, datatype);
}

void describe_Allreduce(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count count,
                        MPI_Datatype datatype)
{
    gives(transfer, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, (size_t)count, datatype);
    gets(transfer, recvbuf, (size_t)count, datatype);
}

void describe_Reduce_scatter(struct transfer *transfer, const void *sendbuf, void *recvbuf, struct numbers recvcounts,
                             MPI_Datatype datatype, MPI_Comm comm)
{
    size_t all = 0;
    for (int i = 0; i < size_of(comm); i++)
        all += (size_t)number_at(recvcounts, i);
    gives(transfer, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, all, datatype);
    gets(transfer, recvbuf, (size_t)number_at(recvcounts, rank_in(comm)), datatype);
}

void describe_Reduce_scatter_block(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                   MPI_Datatype datatype, MPI_Comm comm)
{
    gives(transfer, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, (size_t)recvcount * (size_t)size_of(comm), datatype);
    gets(transfer, recvbuf, (size_t)recvcount, datatype);
}

void describe_Exscan(struct transfer *transfer, const void *sendbuf, void *recvbuf, MPI_Count count,
                     MPI_Datatype datatype, MPI_Comm comm)
{
    gives(transfer, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, (size_t)count, datatype);
    if (rank_in(comm))
        gets(transfer, recvbuf, (size_t)count, datatype);
}

/* One piece from each neighbour: at its displacement, of which `step` is the unit. */
static void gets_of_neighbors(struct transfer *transfer, void *buffer, struct numbers counts, struct numbers displs,
                              MPI_Aint step, const MPI_Datatype types[], bool is_one_type, MPI_Comm comm)
{
    int count, *sources = sources_in(comm, &count);
    transfer->outputs = malloc(sizeof *transfer->outputs * (size_t)(count + 1));
    if (!transfer->outputs)
        stop_job("no memory for %d pieces of a collective operation", count);
    for (int i = 0; i < count; i++) {
        struct region piece = region_of((char *)buffer + number_at(displs, i) * step, (size_t)number_at(counts, i),
                                        is_one_type ? types[0] : types[i]);
        if (sources[i] != MPI_PROC_NULL && piece.bytes)
            transfer->outputs[transfer->count++] = piece;
    }
    free(sources);
}

/* Pieces of the same length, one after the other. */
static void gets_alike_of_neighbors(struct transfer *transfer, void *buffer, MPI_Count each, MPI_Datatype type,
                                    MPI_Comm comm)
{
    int count, *sources = sources_in(comm, &count);
    int64_t *numbers = malloc(sizeof *numbers * 2 * (size_t)(count + 1)), *places = numbers + count;
    if (!numbers)
        stop_job("no memory for %d pieces of a collective operation", count);
    for (int i = 0; i < count; i++) {
        numbers[i] = each;
        places[i] = i * each;
    }
    free(sources);
    gets_of_neighbors(transfer, buffer, NUMBERS(numbers), NUMBERS(places), extent_of(type), &type, true, comm);
    free(numbers);
}

void describe_Neighbor_allgather(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount,
                                 MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                 MPI_Comm comm)
{
    gives(transfer, sendbuf, (size_t)sendcount, sendtype);
    gets_alike_of_neighbors(transfer, recvbuf, recvcount, recvtype, comm);
}

void describe_Neighbor_allgatherv(struct transfer *transfer, const void *sendbuf, MPI_Count sendcount,
                                  MPI_Datatype sendtype, void *recvbuf, struct numbers recvcounts,
                                  struct numbers displs, MPI_Datatype recvtype, MPI_Comm comm)
{
    gives(transfer, sendbuf, (size_t)sendcount, sendtype);
    gets_of_neighbors(transfer, recvbuf, recvcounts, displs, extent_of(recvtype), &recvtype, true, comm);
}

void describe_Neighbor_alltoall(struct transfer *transfer, void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                MPI_Comm comm)
{
    gets_alike_of_neighbors(transfer, recvbuf, recvcount, recvtype, comm);
}

void describe_Neighbor_alltoallv(struct transfer *transfer, void *recvbuf, struct numbers recvcounts,
                                 struct numbers rdispls, MPI_Datatype recvtype, MPI_Comm comm)
{
    gets_of_neighbors(transfer, recvbuf, recvcounts, rdispls, extent_of(recvtype), &recvtype, true, comm);
}

void describe_Neighbor_alltoallw(struct transfer *transfer, void *recvbuf, struct numbers recvcounts,
                                 struct numbers rdispls, const MPI_Datatype recvtypes[], MPI_Comm comm)
{
    gets_of_neighbors(transfer, recvbuf, recvcounts, rdispls, 1, recvtypes, false, comm);
}
