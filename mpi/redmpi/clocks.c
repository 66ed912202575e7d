/* The clocks of the C library, which one replica reads for all [Fiala15, 3.3.3], and its random numbers.
 *
 * The MPI reads clocks too, at any moment. The address of the caller shows whether a call is the MPI's or the
 * program's. Only the thread that initialized MPI calls in an order that replicas share; other threads read the clock
 * themselves. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>

#include "decisions.h"
#include "teams.h"

/* Beginnings of the names of libraries that belong to an MPI; the first one is this library. */
static const char *const of_mpi[] = { "librampart-", "libmpi", "libopen-",  "libpmi", "libpmix",   "libevent",
                                      "libhwloc",    "mca_",   "pmix_mca_", "prte_",  "libprrte",  "libuc",
                                      "libfabric",   "libpsm", "librdmacm", "libmlx", "libibverbs", "libhcoll",
                                      "libocoms",    "libsharp", "libcxi",  "libefa", "libslurm" };

/* The code of these libraries. */
#define MOST_RANGES 256
static struct {
    uintptr_t begin, end;
} ranges[MOST_RANGES];
static int range_count;
static unsigned long long loaded; /* libraries, when the ranges were found */

static bool is_of_mpi(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof of_mpi / sizeof *of_mpi; i++) {
        if (!strncmp(name, of_mpi[i], strlen(of_mpi[i])))
            return true;
    }
    return false;
}

static int add_ranges(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    loaded = info->dlpi_adds;
    for (int i = 0; i < info->dlpi_phnum && is_of_mpi(info->dlpi_name); i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || range_count == MOST_RANGES)
            continue;
        ranges[range_count].begin = info->dlpi_addr + part->p_vaddr;
        ranges[range_count++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

/* Stops at the first library: how many were loaded so far is the same for all. */
static int see_loaded(struct dl_phdr_info *info, size_t size, void *result)
{
    (void)size;
    *(unsigned long long *)result = info->dlpi_adds;
    return 1;
}

static bool comes_from_mpi(const void *caller)
{
    unsigned long long now = 0;
    dl_iterate_phdr(see_loaded, &now);
    if (now != loaded) {
        range_count = 0;
        dl_iterate_phdr(add_ranges, NULL);
    }
    for (int i = 0; i < range_count; i++) {
        if ((uintptr_t)caller >= ranges[i].begin && (uintptr_t)caller < ranges[i].end)
            return true;
    }
    return false;
}

/* Whether what this call returns is the same for all replicas. */
static bool is_shared(const void *caller)
{
    return !teams.is_quiet && pthread_equal(pthread_self(), teams.thread) && !comes_from_mpi(caller);
}

/* The bytes of the one who decides. */
static void share(void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += sizeof((struct decision *)0)->numbers) {
        struct decision decision = { .kind = DECISION_TIME };
        size_t now = size - i < sizeof decision.numbers ? size - i : sizeof decision.numbers;
        memcpy(decision.numbers, (char *)bytes + i, now);
        if (decides())
            tell_decision(&decision);
        else
            must_hear(&decision);
        memcpy((char *)bytes + i, decision.numbers, now);
    }
}

/* The function of the C library that has the name of this one. */
#define REAL(name)                                  \
    static __typeof__(&name) real;                  \
    if (!real)                                      \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define CALLER __builtin_return_address(0)

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

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    REAL(getrandom);
    ssize_t result = real(buffer, length, flags);
    if (is_shared(CALLER)) {
        share(&result, sizeof result);
        if (result > 0)
            share(buffer, (size_t)result);
    }
    return result;
}

int getentropy(void *buffer, size_t length)
{
    REAL(getentropy);
    int result = real(buffer, length);
    if (!result && is_shared(CALLER))
        share(buffer, length);
    return result;
}
