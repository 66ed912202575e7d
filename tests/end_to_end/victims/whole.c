/* Two ranks that use what programs seldom use of MPI, and check what comes of it. What depends on time, such as which
 * part of a message has come first, or where a shared file pointer was, goes into a sum that is sent at the end.
 *
 *   all        all of that
 *   tool       writes a variable of the tool interface; "refused" opens a port */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HAS_PARTS (MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5))
#define PARTS 4
#define EACH 3
#define ROUNDS 3
#define RECORDS 20

static int rank, other;
static uint64_t seen = 14695981039346656037u;

static void see(int number)
{
    seen = (seen ^ (unsigned)number) * 1099511628211u;
}

static void must(int is_right, const char *what)
{
    if (!is_right) {
        printf("wrong: %s\n", what);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static int asked, freed, cancelled, state;

static int query(void *extra, MPI_Status *status)
{
    asked++;
    MPI_Status_set_elements(status, MPI_INT, *(int *)extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int is_complete)
{
    cancelled += 1 + is_complete;
    return MPI_SUCCESS;
}

/* One that is tested, one that is cancelled and freed before its end, and one in a list. */
static void generalized(void)
{
    MPI_Request requests[3];
    MPI_Status status, statuses[2];
    int is_done, count, in = 0;
    state = 7;
    for (int i = 0; i < 3; i++)
        MPI_Grequest_start(query, release, cancel, &state, &requests[i]);
    MPI_Test(&requests[0], &is_done, &status);
    must(!is_done && !asked, "a request that goes on");
    MPI_Grequest_complete(requests[0]);
    while (!is_done)
        MPI_Test(&requests[0], &is_done, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    must(requests[0] == MPI_REQUEST_NULL && status.MPI_TAG == 6 && count == 7, "the status of a generalized request");
    MPI_Request copy = requests[1];
    MPI_Cancel(&requests[1]);
    MPI_Request_free(&requests[1]);
    must(freed == 7, "freed before its end");
    MPI_Grequest_complete(copy);
    MPI_Grequest_complete(requests[2]);
    requests[1] = requests[2];
    MPI_Irecv(&in, 1, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Send(&rank, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, statuses);
    must(in == other && statuses[1].MPI_SOURCE == 5, "a list of requests");
    must(asked == 2 && freed == 21 && cancelled == 1, "calls of the program's functions");
    see(asked);
}

#if HAS_PARTS
static void exchange(void)
{
    double out[400], in[400];
    int both[2] = { rank, rank };
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < 400; i++)
        out[i] = rank + i;
    MPI_Isendrecv(out, 400, MPI_DOUBLE, other, 2, in, 400, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &request);
    MPI_Wait(&request, &status);
    must(in[399] == other + 399 && status.MPI_SOURCE == other && status.MPI_TAG == 2, "MPI_Isendrecv");
    MPI_Isendrecv_replace(both, 2, MPI_INT, other, 3, other, 3, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    must(both[0] == other && both[1] == other, "MPI_Isendrecv_replace");
}

/* The sender has four parts of three numbers, the receiver six of two, with gaps between them: a number, a gap. */
static void parts(void)
{
    static const int order[PARTS] = { 3, 0, 2, 1 };
    int numbers[2 * PARTS * EACH], flags[6] = { 0 };
    MPI_Datatype gapped;
    MPI_Request request;
    MPI_Status status;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped);
    MPI_Type_commit(&gapped);
    if (rank == 0)
        MPI_Psend_init(numbers, PARTS, EACH, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(numbers, 6, 2, gapped, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Start(&request);
        memset(numbers, 0, sizeof numbers);
        for (int i = 0; i < PARTS && rank == 0; i++) {
            for (int j = 0; j < EACH; j++)
                numbers[order[i] * EACH + j] = 100 * round + order[i] * EACH + j;
            if (round < 2)
                MPI_Pready(order[i], request);
        }
        if (rank == 0 && round == 2) {
            MPI_Pready_list(2, (int[]){ 3, 0 }, request);
            MPI_Pready_range(1, 2, request);
        }
        for (int found = 0, i = 0; rank == 1 && round && found < 6; i = (i + 1) % 6) {
            int is_there;
            MPI_Parrived(request, i, &is_there);
            if (is_there && flags[i] < round) {
                flags[i] = round;
                found++;
                see(i);
                must(numbers[4 * i] == 100 * round + 2 * i && numbers[4 * i + 1] == 0, "a part that has come");
            }
        }
        MPI_Wait(&request, &status);
        int count = 0;
        for (int i = 0; i < PARTS * EACH && rank == 1; i++)
            must(numbers[2 * i] == 100 * round + i && numbers[2 * i + 1] == 0, "a message in parts");
        if (rank == 1)
            MPI_Get_count(&status, MPI_INT, &count);
        must(rank == 0 || (count == PARTS * EACH && status.MPI_SOURCE == 0 && status.MPI_TAG == 9), "its status");
    }
    MPI_Request_free(&request);
    MPI_Type_free(&gapped);
    /* One that is never started must not disturb the next one. */
    for (int i = 0; i < 2; i++) {
        int number = rank == 0 ? 42 : 0;
        if (rank == 0)
            MPI_Psend_init(&number, 1, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        else
            MPI_Precv_init(&number, 1, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        if (i) {
            MPI_Start(&request);
            if (rank == 0)
                MPI_Pready(0, request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            must(number == 42, "the next message in parts");
        }
        MPI_Request_free(&request);
    }
}
#else
static void exchange(void) {}
static void parts(void) {}
#endif

/* Both write and read records at a pointer that they share, and at last in the order of their ranks. */
static void shared_file(void)
{
    MPI_File file;
    MPI_Status status;
    MPI_Offset place;
    MPI_Request request;
    int record[2], sums[2] = { 0 }, count;
    MPI_File_open(MPI_COMM_WORLD, "shared", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < RECORDS; i++) {
        record[0] = rank;
        record[1] = i;
        if (i % 2) {
            MPI_File_iwrite_shared(file, record, 2, MPI_INT, &request);
            MPI_Wait(&request, &status);
        } else {
            MPI_File_write_shared(file, record, 2, MPI_INT, &status);
        }
        MPI_File_get_position_shared(file, &place);
        see((int)place);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    for (int i = 0; i < RECORDS; i++) {
        if (i % 2) {
            MPI_File_iread_shared(file, record, 2, MPI_INT, &request);
            MPI_Wait(&request, &status);
        } else {
            MPI_File_read_shared(file, record, 2, MPI_INT, &status);
        }
        MPI_Get_count(&status, MPI_INT, &count);
        must(count == 2, "a record");
        sums[0] += record[0];
        sums[1] += record[1];
        see(record[0]);
    }
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    must(sums[0] == RECORDS && sums[1] == RECORDS * (RECORDS - 1), "each record was read once");
    record[0] = record[1] = rank;
    MPI_File_write_ordered(file, record, 2 - rank, MPI_INT, &status);
    MPI_File_seek_shared(file, -3, MPI_SEEK_END);
    MPI_File_read_ordered_begin(file, record, 1 + rank, MPI_INT);
    MPI_File_read_ordered_end(file, record, &status);
    must(record[0] == 0 && (rank == 0 || record[1] == 1), "the order of ranks");
    MPI_File_seek_shared(file, -1, MPI_SEEK_CUR);
    MPI_File_get_position_shared(file, &place);
    must(place == 4 * RECORDS + 2, "the place of the pointer");
    MPI_File_close(&file);
    MPI_File_open(MPI_COMM_WORLD, "shared", MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_INFO_NULL, &file);
    MPI_File_get_position_shared(file, &place);
    must(place == 8 + 4 * (4 * RECORDS + 3), "the end, where a file is appended to");
    MPI_File_close(&file);
}

#if MPI_VERSION >= 4
/* Counts as large as functions for them take, of messages that are small, or of nothing. */
static void large(void)
{
    const MPI_Count many = 3000000000;
    char *room = mmap(NULL, (size_t)many, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int out[6] = { rank, rank + 1, rank + 2, rank + 3, 5, 6 }, in[6] = { 0 };
    MPI_Count counts[2] = { 2, 2 }, count;
    MPI_Aint places[2] = { 0, 2 };
    MPI_Request request;
    MPI_Status status;
    MPI_Datatype nothing, pair;
    MPI_Irecv_c(room, many, MPI_CHAR, other, 4, MPI_COMM_WORLD, &request);
    MPI_Send_c(out, 6, MPI_INT, other, 4, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Get_count_c(&status, MPI_CHAR, &count);
    must(count == 24 && !memcmp(room, &other, sizeof other), "a message in a large buffer");
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    MPI_Bcast_c(out, many, nothing, 0, MPI_COMM_WORLD);
    MPI_Sendrecv_replace_c(out, many, nothing, other, 4, other, 4, MPI_COMM_WORLD, &status);
    MPI_Alltoallv_c(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
    must(in[2 * other] == other + 2 * rank && in[2 * rank] == 3 * rank, "MPI_Alltoallv_c");
    MPI_Iallreduce_c(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&nothing);
    MPI_Type_contiguous_c(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Allgather_c(out, 1, pair, in, 1, pair, MPI_COMM_WORLD);
    must(in[2 * other] == other && in[2 * rank + 1] == rank + 1, "MPI_Allgather_c of a type with a large count");
    MPI_Type_free(&pair);
    munmap(room, (size_t)many);
}
#else
static void large(void) {}
#endif

static void tool(int writes)
{
    int provided, count, value = 0;
    MPI_T_pvar_session session;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_num(&count);
    if (writes)
        MPI_T_cvar_write(MPI_T_CVAR_HANDLE_NULL, &value);
    must(MPI_T_pvar_session_create(&session) == MPI_SUCCESS, "MPI_T_pvar_session_create");
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

static void all(void)
{
    generalized();
    exchange();
    parts();
    shared_file();
    large();
    tool(0);
    uint64_t others;
    MPI_Sendrecv(&seen, 1, MPI_UINT64_T, other, 5, &others, 1, MPI_UINT64_T, other, 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (rank == 0)
        puts("done");
}

int main(int count, char **words)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    if (!strcmp(words[1], "all"))
        all();
    else if (!strcmp(words[1], "tool"))
        tool(1);
    else
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Finalize();
    return 0;
}
