/* The block, the clock and the file of record.h. */
#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Raised whenever the format changes: docs/trace-format.md. */
#define VERSION 2

#define SECOND 1000000000U

static struct {
    int file;
    /* The process that opened the file: a forked child has a copy of the block, and must not write it again. */
    pid_t owner;
    size_t used;
    /* The time of the last flush, by a clock that costs next to nothing. */
    uint64_t flushed;
    uint64_t last_communicator;
    uint64_t last_request;
    unsigned char block[65536];
} out = {.file = -1};

static struct {
    clockid_t id;
    /* The nesting depth of MPI calls; more than one where the library calls itself. */
    unsigned depth;
    /* The start of this call, and the end of the last one. */
    uint64_t entered;
    uint64_t left;
    /* The program's own time since the last record. */
    uint64_t computed;
    /* The CPU time of nonblocking calls since then. */
    uint64_t library;
    /* Whether this call was a test that found nothing. */
    bool missed;
    uint64_t began;
} watch = {.id = CLOCK_MONOTONIC};

static uint64_t now(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void stop_recording(const char *why)
{
    fprintf(stderr, "rampart trace: the calls of this rank are no longer recorded: %s\n", why);
    close(out.file);
    out.file = -1;
}

void flush_records(void)
{
    size_t written = 0;
    while (out.file >= 0 && written < out.used && getpid() == out.owner) {
        ssize_t count = write(out.file, out.block + written, out.used - written);
        if (count > 0)
            written += (size_t)count;
        else if (count < 0 && errno != EINTR)
            stop_recording(strerror(errno));
    }
    out.used = 0;
    out.flushed = now(CLOCK_MONOTONIC_COARSE);
}

/* A program that ends without MPI_Finalize leaves its records. */
__attribute__((destructor)) static void leave_all(void)
{
    flush_records();
}

static void put_byte(unsigned char byte)
{
    if (out.file < 0)
        return;
    if (out.used == sizeof out.block)
        flush_records();
    out.block[out.used++] = byte;
}

void put(uint64_t number)
{
    for (; number > 127; number >>= 7)
        put_byte((unsigned char)(number | 128));
    put_byte((unsigned char)number);
}

/* Handles are mostly equal or close to that of the previous record, so their differences are short. */
static void put_handle(uint64_t *last, uint64_t handle)
{
    int64_t step = (int64_t)(handle - *last);
    *last = handle;
    put(((uint64_t)step << 1) ^ (uint64_t)(step >> 63));
}

void put_communicator(uint64_t handle)
{
    put_handle(&out.last_communicator, handle);
}

void put_request(uint64_t handle)
{
    put_handle(&out.last_request, handle);
}

void put_text(const char *text)
{
    size_t length = strlen(text);
    put(length);
    for (size_t i = 0; i < length; i++)
        put_byte((unsigned char)text[i]);
}

void put_record_of(int records, enum record record)
{
    uint64_t library = watch.library / (unsigned)records;
    put(record);
    put(watch.computed);
    put(library);
    watch.computed = 0;
    watch.library -= library;
}

void put_record(enum record record)
{
    put_record_of(1, record);
}

void worked(void)
{
    watch.library += now(watch.id) - watch.entered;
}

void missed(void)
{
    watch.missed = true;
}

bool enter(void)
{
    bool own = watch.depth++ == 0;
    if (own) {
        watch.entered = now(watch.id);
        watch.computed += watch.entered - watch.left;
    }
    return own;
}

void leave(void)
{
    if (--watch.depth > 0)
        return;
    if (watch.missed) {
        /* The call lies within the program's own time, and adds nothing to write. */
        watch.left = watch.entered;
        watch.missed = false;
        return;
    }
    watch.left = now(watch.id);
    if (now(CLOCK_MONOTONIC_COARSE) - out.flushed > SECOND)
        flush_records();
}

void begin(int rank, int ranks, int ranks_of_node)
{
    const char *folder = getenv("RAMPART_TRACE");
    char path[4096];
    if (folder == NULL || snprintf(path, sizeof path, "%s/rank-%d", folder, rank) >= (int)sizeof path)
        return;
    /* A job that starts several programs has several ranks of each number: the first program is recorded. */
    out.file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (out.file < 0) {
        fprintf(stderr, "rampart trace: rank %d is not recorded, %s cannot be made: %s\n", rank, path, strerror(errno));
        return;
    }
    out.owner = getpid();
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    /* With more ranks than CPUs, elapsed time includes other ranks' time; the rank's own is its CPU time. */
    bool shared = ranks_of_node > cpus;
    watch.id = shared ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    for (const char *magic = "RAMPRANK"; *magic; magic++)
        put_byte((unsigned char)*magic);
    put(VERSION);
    put((uint64_t)rank);
    put((uint64_t)ranks);
    put(shared ? (uint64_t)ranks_of_node : 1);
    put(shared ? (uint64_t)cpus : 1);
    watch.began = now(CLOCK_MONOTONIC);
    watch.left = now(watch.id);
    watch.computed = 0;
}

void end(void)
{
    put_record(RECORD_END);
    put(now(CLOCK_MONOTONIC) - watch.began);
    flush_records();
    if (out.file >= 0)
        close(out.file);
    out.file = -1;
}
