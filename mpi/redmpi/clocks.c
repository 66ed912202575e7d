/* See clocks.h. */
#include "clocks.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include "callers.h"
#include "decisions.h"
#include "identity.h"
#include "teams.h"

static bool is_shared(const void *reader)
{
    return !teams.is_quiet && is_in_order() && !comes_from_mpi(reader);
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

void share_time(void *bytes, size_t size, const void *reader)
{
    if (!is_shared(reader))
        return;
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
    if (!result)
        share_time(time, sizeof *time, CALLER);
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    REAL(gettimeofday);
    int result = real(time, zone);
    if (!result)
        share_time(time, sizeof *time, CALLER);
    return result;
}

time_t time(time_t *place)
{
    REAL(time);
    time_t now = real(NULL);
    share_time(&now, sizeof now, CALLER);
    if (place)
        *place = now;
    return now;
}

clock_t clock(void)
{
    REAL(clock);
    clock_t now = real();
    share_time(&now, sizeof now, CALLER);
    return now;
}

clock_t times(struct tms *buffer)
{
    REAL(times);
    clock_t now = real(buffer);
    share_time(&now, sizeof now, CALLER);
    if (buffer)
        share_time(buffer, sizeof *buffer, CALLER);
    return now;
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
    REAL(getrusage);
    int result = real(who, usage);
    if (!result)
        share_time(usage, sizeof *usage, CALLER);
    return result;
}
