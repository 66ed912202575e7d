/* A program for replicas: what it does depends on its argument.
 *
 *   ring      computes round a ring, and prints the result
 *   windows   the same, by one-sided communication
 *   all       many ways to send, receive and wait; what comes first, and the time, go into what is sent at the end
 *   many      has many windows at a time
 *   path      how many rounds it does is in memory that it sends
 *   ticks     exchanges one message, and then counts tenths of a second for ten seconds; "ticks-other" expects a longer
 *             message in replica 1 of the last rank, "ticks-abort" ends the job instead of that
 *   ahead:F   replica 1 waits until replica 0 has received as much as it may; F is shared between them
 *   print     prints in each rank; "print-wrong" something else in replica 1 of the last rank, "print-more" more there
 *   session   uses what is not supported, before it begins with MPI, if there are sessions */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BIG 60000
#define ROUNDS 3

/* Functions that the library which compares replicas has, too, and must not take from here. */
void compare(void) { abort(); }
void pack_regions(void) { abort(); }
void record_step(void) { abort(); }

static int rank, ranks, after, before;
static uint64_t seen = 14695981039346656037u;
static int out[BIG], in[8 * BIG];

static void see(const void *data, size_t bytes)
{
    for (const unsigned char *next = data; bytes--; next++)
        seen = (seen ^ *next) * 1099511628211u;
}

/* Whether there is anything in the upper halves of vector registers: each SSE instruction would wait for them. */
static int uses_upper_halves(void)
{
    unsigned char halves[16][16] = { 0 }, all = 0;
#ifdef __x86_64__
#define HALF(n) __asm__ volatile("vextractf128 $1, %%ymm" #n ", %0" : "=m"(halves[n]))
    if (__builtin_cpu_supports("avx")) {
        HALF(0); HALF(1); HALF(2); HALF(3); HALF(4); HALF(5); HALF(6); HALF(7);
        HALF(8); HALF(9); HALF(10); HALF(11); HALF(12); HALF(13); HALF(14); HALF(15);
    }
#endif
    for (int i = 0; i < 256; i++)
        all |= halves[i / 16][i % 16];
    return all;
}

static void ring(void)
{
    static double a[500], b[500];
    double sum = 0, total;
    for (int i = 0; i < 500; i++)
        a[i] = rank + 0.25 * i;
    for (int round = 0; round < 30; round++) {
        MPI_Request requests[2];
        int were_used = uses_upper_halves();
        MPI_Irecv(b, 500, MPI_DOUBLE, before, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(a, 500, MPI_DOUBLE, after, 7, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (!were_used && uses_upper_halves())
            puts("The upper halves of registers are in use.");
        for (int i = 0; i < 500; i++)
            a[i] = 0.5 * (a[i] + b[i]) + 1e-3 * round;
    }
    for (int i = 0; i < 500; i++)
        sum += a[i];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.17g\n", total);
}

static void windows(void)
{
    static double a[500], b[500];
    double *memory, sum = 0, total;
    MPI_Win window;
    MPI_Win_allocate(sizeof a, sizeof *a, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (int i = 0; i < 500; i++)
        a[i] = rank + 0.25 * i;
    MPI_Win_fence(0, window);
    for (int round = 0; round < 30; round++) {
        MPI_Put(a, 500, MPI_DOUBLE, after, 0, 500, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        MPI_Get(b, 500, MPI_DOUBLE, rank, 0, 500, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        for (int i = 0; i < 500; i++)
            a[i] = 0.5 * (a[i] + b[i]) + 1e-3 * round;
    }
    for (int i = 0; i < 500; i++)
        sum += a[i];
    MPI_Win_free(&window);
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.17g\n", total);
}

/* The first rank takes what comes first, in one of three ways. */
static void anything(int round)
{
    MPI_Status status;
    int count, found = 0;
    for (int i = 0; i < 100; i++)
        out[i] = 1000 * rank + round + i;
    if (rank) {
        MPI_Send(out, (37 * rank + 11 * round) % 100, MPI_INT, 0, 100 + round, MPI_COMM_WORLD);
        return;
    }
    for (int i = 1; i < ranks; i++) {
        if (round % 3 == 0)
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        for (found = 0; round % 3 == 1 && !found;)
            MPI_Iprobe(MPI_ANY_SOURCE, 100 + round, MPI_COMM_WORLD, &found, &status);
        if (round % 3 == 2)
            MPI_Recv(in, BIG, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        else
            MPI_Recv(in, BIG, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        see(&status.MPI_SOURCE, sizeof(int));
        see(in, sizeof(int) * (size_t)count);
    }
}

/* A receive from anyone stays open over a large send, a barrier and a sum. */
static void open_for_long(int round)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int sum;
    for (int i = 0; i < BIG; i++)
        out[i] = i ^ rank << 20 ^ round;
    MPI_Irecv(in, BIG, MPI_INT, MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + BIG, BIG, MPI_INT, before, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(out, BIG, MPI_INT, after, 1000, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(out, BIG / 2, MPI_INT, after, 1001, MPI_COMM_WORLD, &requests[2]);
    MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, statuses);
    see(&sum, sizeof sum);
    see(in, sizeof(int) * BIG);
    see(in + BIG, sizeof(int) * BIG / 2);
    see(&statuses[1].MPI_TAG, sizeof(int));
}

/* Memory stays as it was while a receive from anyone is open for it: programs such as HPCCG send it meanwhile. */
static void open_and_sent(void)
{
    MPI_Request open;
    int value = 77, got = 0;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 30, MPI_COMM_WORLD, &open);
    MPI_Send(&rank, 1, MPI_INT, after, 30, MPI_COMM_WORLD);
    /* What the one before sent first has come when this has. */
    MPI_Sendrecv(&value, 1, MPI_INT, after, 31, &got, 1, MPI_INT, before, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (value != 77 || got != 77)
        printf("rank %d: memory of an open receive has changed\n", rank);
    MPI_Wait(&open, MPI_STATUS_IGNORE);
    see(&value, sizeof value);
}

/* Several receives from anyone at once, and waits for some of them. */
static void some(int round)
{
    MPI_Request requests[64];
    MPI_Status statuses[64];
    int count = 0, found, indices[64];
    for (int i = 1; i < ranks; i++)
        MPI_Irecv(in + 100 * i, 100, MPI_INT, MPI_ANY_SOURCE, 5 + i % 2, MPI_COMM_WORLD, &requests[count++]);
    for (int i = 1; i < ranks; i++)
        MPI_Isend(out + i, 50 + i, MPI_INT, (rank + i) % ranks, 5 + i % 2, MPI_COMM_WORLD, &requests[count++]);
    for (int left = count; left > 0; left -= found) {
        found = 0;
        if (round % 2)
            MPI_Waitsome(count, requests, &found, indices, statuses);
        while (!found)
            MPI_Testsome(count, requests, &found, indices, statuses);
        for (int i = 0; i < found; i++) {
            see(&indices[i], sizeof(int));
            if (indices[i] < ranks - 1)
                see(&statuses[i].MPI_SOURCE, sizeof(int));
        }
    }
    see(in, sizeof(int) * 100 * (size_t)ranks);
}

/* Types with gaps, persistent requests and another communicator. */
static void persistent(int round)
{
    MPI_Comm half, copy;
    MPI_Datatype column;
    MPI_Request requests[2];
    int own, size;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_dup(half, &copy);
    MPI_Comm_rank(copy, &own);
    MPI_Comm_size(copy, &size);
    MPI_Type_vector(10, 2, 7, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Send_init(out, 1, column, (own + 1) % size, 3, copy, &requests[0]);
    MPI_Recv_init(in, 1, column, round % 2 ? MPI_ANY_SOURCE : (own + size - 1) % size, 3, copy, &requests[1]);
    for (int i = 0; i < 3; i++) {
        out[7] = i + round;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        see(in, sizeof(int) * 65);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Type_free(&column);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
}

static void collective(int round)
{
    MPI_Request request;
    int flag = 0, counts[64], places[64];
    MPI_Sendrecv_replace(out, 33, MPI_INT, after, 9, before, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ibcast(out, 500, MPI_INT, round % ranks, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    see(out, sizeof(int) * 500);
    for (int i = 0; i < ranks; i++) {
        counts[i] = 3 + i;
        places[i] = 40 * i;
    }
    memset(in, 0, sizeof(int) * 40 * (size_t)ranks);
    MPI_Gatherv(out, 3 + rank, MPI_INT, in, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    see(in, sizeof(int) * 40 * (size_t)ranks);
    MPI_Alltoall(out, 5, MPI_INT, in, 5, MPI_INT, MPI_COMM_WORLD);
    see(in, sizeof(int) * 5 * (size_t)ranks);
}

/* Two messages of each other rank are taken off the list as they come, and received the other way round. */
static void matched(int round)
{
    MPI_Message messages[128];
    MPI_Status status;
    MPI_Request request;
    int count = 2 * (ranks - 1), found;
    for (int i = 0; i < 2 && rank; i++) {
        out[0] = 100 * rank + 10 * round + i;
        MPI_Send(out, 700 * i + 5, MPI_INT, 0, 8, MPI_COMM_WORLD);
    }
    for (int i = 0; i < count && !rank; i++) {
        if (i % 2)
            MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &messages[i], &status);
        for (found = i % 2; !found;)
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &messages[i], &status);
        see(&status.MPI_SOURCE, sizeof(int));
    }
    for (int i = count - 1; i >= 0 && !rank; i--) {
        if (i % 2) {
            MPI_Mrecv(in, BIG, MPI_INT, &messages[i], &status);
        } else {
            MPI_Imrecv(in, BIG, MPI_INT, &messages[i], &request);
            MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, MPI_INT, &found);
        see(in, sizeof(int) * (size_t)found);
    }
}

/* Even ranks on one side, odd ones on the other. */
static void between_groups(int round)
{
    MPI_Comm half, between, merged;
    MPI_Request request;
    int own, others, sum = 0, root;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 4, &between);
    MPI_Comm_rank(between, &own);
    MPI_Comm_remote_size(between, &others);
    MPI_Irecv(in, BIG, MPI_INT, round % 2 ? MPI_ANY_SOURCE : own % others, 6, between, &request);
    MPI_Send(out + rank, 300 + round, MPI_INT, own % others, 6, between);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    see(in, sizeof(int) * (300 + (size_t)round));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, between);
    see(&sum, sizeof sum);
    root = rank % 2 ? 0 : own ? MPI_PROC_NULL : MPI_ROOT;
    MPI_Bcast(&sum, 1, MPI_INT, root, between);
    see(&sum, sizeof sum);
    MPI_Gather(&sum, 1, MPI_INT, in, 1, MPI_INT, root, between);
    see(in, sizeof(int) * (size_t)others);
    MPI_Intercomm_merge(between, rank % 2, &merged);
    MPI_Exscan(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    see(&sum, sizeof sum);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

/* The ends of the row have one neighbour. */
static void neighbors(int round)
{
    MPI_Comm row;
    MPI_Request request;
    int size[1] = { ranks }, is_periodic[1] = { round % 2 };
    int counts[2] = { 3, 3 }, places[2] = { 10, 0 };
    MPI_Cart_create(MPI_COMM_WORLD, 1, size, is_periodic, 0, &row);
    memset(in, 0, sizeof(int) * 20);
    MPI_Neighbor_allgather(out + rank, 3, MPI_INT, in, 3, MPI_INT, row);
    see(in, sizeof(int) * 6);
    MPI_Ineighbor_alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, row, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    see(in, sizeof(int) * 13);
    MPI_Comm_free(&row);
}

/* Two communicators are duplicated while a message is on its way; even ranks wait for the second one first. */
static void duplicated(int round)
{
    MPI_Comm row, made[2];
    MPI_Request requests[2], receive;
    int own, size;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2 + round % 2, rank, &row);
    MPI_Irecv(in, BIG, MPI_INT, round % 2 ? MPI_ANY_SOURCE : before, 11, MPI_COMM_WORLD, &receive);
    MPI_Comm_idup(MPI_COMM_WORLD, &made[0], &requests[0]);
    MPI_Comm_idup(row, &made[1], &requests[1]);
    MPI_Send(out, 200 + round, MPI_INT, after, 11, MPI_COMM_WORLD);
    MPI_Wait(&requests[(rank + 1) % 2], MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    see(in, sizeof(int) * (200 + (size_t)round));
    MPI_Sendrecv(out, 77, MPI_INT, before, 12, in, BIG, MPI_INT, after, 12, made[0], MPI_STATUS_IGNORE);
    see(in, sizeof(int) * 77);
    MPI_Comm_rank(made[1], &own);
    MPI_Comm_size(made[1], &size);
    MPI_Sendrecv(out, 5, MPI_INT, (own + 1) % size, 12, in, BIG, MPI_INT, MPI_ANY_SOURCE, 12, made[1],
                 MPI_STATUS_IGNORE);
    see(in, sizeof(int) * 5);
    MPI_Comm_free(&made[0]);
    MPI_Comm_free(&made[1]);
    MPI_Comm_free(&row);
}

/* Collective operations that are started again and again. */
static void started(int round)
{
#if MPI_VERSION >= 4
    MPI_Datatype column;
    MPI_Request requests[2];
    int *twice = out + BIG / 2;
    MPI_Type_vector(10, 2, 7, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Allreduce_init(out, in, 50, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(twice, 1, column, round % ranks, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Type_free(&column);
    for (int i = 0; i < 3; i++) {
        out[7] = twice[7] = rank * i + round;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        see(in, sizeof(int) * 50);
        see(twice, sizeof(int) * 65);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
#else
    (void)round;
#endif
}

/* Replicas do not know that they are some; an error would. */
static int is_hit(void)
{
    const char *openmpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
    return atoi(openmpi ? openmpi : mpich) == 2 * ranks - 1;
}

static void print(const char *how)
{
    for (int line = 0; line < 100; line++) {
        printf("rank %d line %d\n", rank, line + 7 * (line == 60 && !strcmp(how, "print-wrong") && is_hit()));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    /* The last line comes from a program that this one starts. */
    char line[8] = "";
    FILE *child = popen("echo 100", "r");
    if (fgets(line, sizeof line, child))
        printf("rank %d line %s", rank, line);
    pclose(child);
    fprintf(stderr, "rank %d is at the end\n", rank);
    if (!strcmp(how, "print-more") && is_hit())
        puts("and more");
}

/* One-sided communication: between fences, under exclusive locks, and by atomic operations. Who comes first goes into
 * what is sent at the end. */
static void one_sided(int round)
{
    MPI_Win window;
    int *memory, seen_last[4] = { 0 }, ticket, one = 1, taken, none = 0;
    MPI_Win_allocate(sizeof(int) * 1000, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, sizeof(int) * 1000);
    MPI_Win_fence(0, window);
    MPI_Put(out, 50 + round, MPI_INT, after, 10, 50 + round, MPI_INT, window);
    MPI_Accumulate(out + rank, 30, MPI_INT, before, 200, 30, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get(in, 100, MPI_INT, after, 0, 100, MPI_INT, window);
    MPI_Win_fence(0, window);
    see(in, sizeof(int) * 100);
    see(memory, sizeof(int) * 300);
    /* A list of who came, in the first rank's memory. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&ticket, 1, MPI_INT, 0, 500, 1, MPI_INT, window);
    MPI_Win_flush(0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, 501 + ticket, 1, MPI_INT, window);
    ticket++;
    MPI_Put(&ticket, 1, MPI_INT, 0, 500, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
    see(&ticket, sizeof ticket);
    /* The same without a lock; and one of them wins. */
    MPI_Win_lock_all(0, window);
    MPI_Fetch_and_op(&one, &ticket, MPI_INT, 0, 600, MPI_SUM, window);
    MPI_Win_flush(0, window);
    MPI_Put(&rank, 1, MPI_INT, 0, 601 + ticket, 1, MPI_INT, window);
    taken = rank + 1;
    MPI_Compare_and_swap(&taken, &none, &seen_last[0], MPI_INT, ranks - 1, 700, window);
    MPI_Get_accumulate(&taken, 1, MPI_INT, &seen_last[1], 1, MPI_INT, ranks - 1, 701, 1, MPI_INT, MPI_REPLACE, window);
    MPI_Win_flush(ranks - 1, window);
    MPI_Win_unlock_all(window);
    see(&ticket, sizeof ticket);
    see(seen_last, sizeof seen_last);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    MPI_Get(in, 300, MPI_INT, round % 2 ? 0 : ranks - 1, 500, 300, MPI_INT, window);
    MPI_Win_fence(0, window);
    see(in, sizeof(int) * 300);
    MPI_Win_free(&window);
}

/* More windows than share a table of counters: places are used again, and each has its own lock. */
static void many(void)
{
    enum { WINDOWS = 70 };
    static MPI_Win all[WINDOWS];
    static _Alignas(64) int memory[WINDOWS][16];
    for (int i = 0; i < WINDOWS; i++) {
        memory[i][0] = 1000 * rank + i;
        MPI_Win_create(memory[i], sizeof *memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &all[i]);
        if (i % 10 == 9)
            MPI_Win_free(&all[i - 5]);
    }
    for (int i = 0; i < WINDOWS; i++) {
        int number = -1;
        if (i % 10 == 4)
            continue;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, after, 0, all[i]);
        MPI_Get(&number, 1, MPI_INT, after, 0, 1, MPI_INT, all[i]);
        MPI_Win_unlock(after, all[i]);
        if (number != 1000 * after + i)
            printf("rank %d has %d of window %d\n", rank, number, i);
        MPI_Win_free(&all[i]);
    }
    if (rank == 0)
        printf("done\n");
}

/* A handler gets the communicator that the program knows; and a status keeps its error where one receive has ended. */
static int handled;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    handled += *comm == MPI_COMM_WORLD;
}

/* No message can have such a rank or tag: a probe would wait for ever. */
static int refused_probes(void)
{
    MPI_Message message;
    int is_there;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int errors = MPI_Probe(ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    errors += MPI_Probe(before, -80, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    errors += MPI_Mprobe(-80, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    errors += MPI_Iprobe(-80, 1, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    return errors;
}

static void errors(void)
{
    MPI_Errhandler handler;
    MPI_Status status = { .MPI_ERROR = 77 };
    MPI_Request request;
    int number, refused = refused_probes();
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Irecv(&number, 1, MPI_INT, before, 15, MPI_COMM_WORLD, &request);
    MPI_Send(&rank, 1, MPI_INT, after, 15, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    if (handled != 1 || status.MPI_ERROR != 77 || refused != 4)
        printf("handled %d, error %d, refused %d\n", handled, status.MPI_ERROR, refused);
}

/* What the MPI allocates for the program has the same address in all replicas, and is all zeros. So has the stack. */
static void addresses(int round)
{
    static char *kept[ROUNDS];
    void *on_stack = &round;
    see(&on_stack, sizeof on_stack);
    char *first, *second;
    MPI_Alloc_mem(100 + round, MPI_INFO_NULL, &first);
    MPI_Alloc_mem(50000, MPI_INFO_NULL, &kept[round]);
    MPI_Alloc_mem(9000 * round + 1, MPI_INFO_NULL, &second);
    see(&first, sizeof first);
    see(&kept[round], sizeof kept[round]);
    see(&second, sizeof second);
    see(kept[round], 50000);
    memset(kept[round], 1, 50000);
    MPI_Free_mem(second);
    MPI_Free_mem(first);
    if (round % 2)
        MPI_Free_mem(kept[round - 1]);
}

/* Each opens its window to the one before, who does not know when: it tests until the other is done. */
static void opened(int round)
{
    MPI_Win window;
    MPI_Group everyone, last, next;
    int *memory, done = 0, got[8] = { 0 };
    MPI_Win_allocate(sizeof(int) * 64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (int i = 0; i < 64; i++)
        memory[i] = 1000 * rank + round + i;
    MPI_Comm_group(MPI_COMM_WORLD, &everyone);
    MPI_Group_incl(everyone, 1, &before, &last);
    MPI_Group_incl(everyone, 1, &after, &next);
    MPI_Win_post(last, 0, window);
    MPI_Win_start(next, 0, window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    if (MPI_Win_start(next, 0, window) == MPI_SUCCESS)
        exit(3);
    for (int i = 0; i < 8; i++)
        MPI_Put(&out[i], 1, MPI_INT, after, i, 1, MPI_INT, window);
    for (int i = 0; i < 8; i++)
        MPI_Get(&got[i], 1, MPI_INT, after, 32 + i, 1, MPI_INT, window);
    MPI_Win_complete(window);
    while (!done)
        MPI_Win_test(window, &done);
    see(got, sizeof got);
    see(memory, sizeof(int) * 64);
    MPI_Group_free(&everyone);
    MPI_Group_free(&last);
    MPI_Group_free(&next);
    MPI_Win_lock(MPI_LOCK_SHARED, after, 0, window);
    if (MPI_Win_free(&window) == MPI_SUCCESS)
        return; /* Open MPI forgets the lock */
    MPI_Get(got, 1, MPI_INT, after, 32, 1, MPI_INT, window);
    MPI_Win_unlock(after, window);
    see(got, sizeof got);
    MPI_Win_free(&window);
}

static void all(void)
{
    uint64_t sum;
    errors();
    for (int round = 0; round < ROUNDS; round++) {
        anything(round);
        MPI_Barrier(MPI_COMM_WORLD);
        open_for_long(round);
        open_and_sent();
        some(round);
        persistent(round);
        collective(round);
        matched(round);
        between_groups(round);
        neighbors(round);
        duplicated(round);
        started(round);
        one_sided(round);
        opened(round);
        addresses(round);
        double now = MPI_Wtime();
        see(&now, sizeof now);
    }
    MPI_Allreduce(&seen, &sum, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    if (rank == 0)
        printf("done\n");
}

static void path(void)
{
    int rounds = 5, other;
    for (int round = 0; round < rounds; round++) {
        MPI_Sendrecv(&rounds, 1, MPI_INT, after, 1, &other, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        rounds = rounds < 50 ? rounds : 0;
    }
    if (rank == 0)
        printf("done\n");
}

static void ticks(const char *how)
{
    int expected = !strcmp(how, "ticks-other") && is_hit() ? 2 : 1, other[2];
    MPI_Sendrecv(&rank, 1, MPI_INT, after, 1, other, expected, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(how, "ticks-abort"))
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (int tick = 0; tick < 100; tick++) {
        if (rank == 0)
            puts("tick");
        usleep(100000);
    }
}

/* The log of what was received has 65,536 places. */
static void ahead(const char *file)
{
    volatile int *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED, open(file, O_RDWR), 0);
    int is_behind = is_hit(), other;
    while (is_behind && *done < 65536)
        usleep(1000);
    usleep(is_behind ? 200000 : 0);
    if (is_behind && *done > 65536)
        puts("too far");
    for (int i = 1; i <= 70000; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, rank, 1, &other, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        *done = is_behind ? *done : i;
    }
    puts("done");
}

static void session(void)
{
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
#endif
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "ring";
    if (!strcmp(what, "session"))
        session();
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    after = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    if (!strcmp(what, "all"))
        all();
    else if (!strcmp(what, "windows"))
        windows();
    else if (!strcmp(what, "many"))
        many();
    else if (!strcmp(what, "path"))
        path();
    else if (!strncmp(what, "ticks", 5))
        ticks(what);
    else if (!strncmp(what, "ahead:", 6))
        ahead(what + 6);
    else if (!strncmp(what, "print", 5))
        print(what);
    else if (!strcmp(what, "session"))
        puts("no sessions");
    else
        ring();
    MPI_Finalize();
    return 0;
}
