/* The clocks of the C library, which one replica reads for all [Fiala15, 3.3.3].
 *
 * The MPI reads clocks too, at any moment, and gets its own. Only the thread that initialized MPI calls in an order
 * that replicas share; other threads read the clock themselves. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include "callers.h"
#include "decisions.h"
#include "teams.h"

/* Whether what this call returns is the same for all replicas. */
static bool is_shared(const void *caller)
{
    return !teams.is_quiet && pthread_equal(pthread_self(), teams.thread) && !comes_from_mpi(caller);
}

struct piece {
    char *bytes;
    size_t size;
};

static bool give_bytes(void *what, struct decision *decision)
{
    const struct piece *piece = what;
    memcpy(decision->numbers, piece->bytes, piece->size);
    return true;
}

/* The bytes of the one who decides. */
static void share(void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += sizeof((struct decision *)0)->numbers) {
        struct decision decision;
        struct piece piece = { .bytes = (char *)bytes + i, .size = size - i };
        if (piece.size > sizeof decision.numbers)
            piece.size = sizeof decision.numbers;
        decide(&(struct choice){ .kind = DECISION_TIME, .waits = true, .look = give_bytes, .what = &piece }, &decision);
        memcpy(piece.bytes, decision.numbers, piece.size);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    REAL(clock_gettime);
    int result = real(clock, time);
    if (!result && is_shared(CALLER))
        share(time, sizeof *time);
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    REAL(gettimeofday);
    int result = real(time, zone);
    if (!result && is_shared(CALLER))
        share(time, sizeof *time);
    return result;
}

time_t time(time_t *place)
{
    REAL(time);
    time_t now = real(NULL);
    if (is_shared(CALLER))
        share(&now, sizeof now);
    if (place)
        *place = now;
    return now;
}

clock_t clock(void)
{
    REAL(clock);
    clock_t now = real();
    if (is_shared(CALLER))
        share(&now, sizeof now);
    return now;
}

clock_t times(struct tms *buffer)
{
    REAL(times);
    clock_t now = real(buffer);
    if (is_shared(CALLER)) {
        share(&now, sizeof now);
        if (buffer)
            share(buffer, sizeof *buffer);
    }
    return now;
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
    REAL(getrusage);
    int result = real(who, usage);
    if (!result && is_shared(CALLER))
        share(usage, sizeof *usage);
    return result;
}
