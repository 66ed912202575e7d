/* See waits.h. */
#include "waits.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* What the program waits for now. It is odd how often that has changed while it waits; meanwhile the rest stays as it
 * is. */
static struct {
    _Atomic uint64_t changes;
    _Atomic(const char *) what;
    _Atomic int rank, tag;
    int depth;
    atomic_bool is_told; /* there is a file, or there is about to be one */
    time_t patience; /* in seconds; 0: for ever */
    char file[4096];
} waits;

void begin_waits(void)
{
    const char *folder = getenv("RAMPART_REDMPI"), *patience = getenv("RAMPART_PATIENCE");
    waits.patience = folder && patience ? atoi(patience) : 0;
    snprintf(waits.file, sizeof waits.file, "%s/waits.%d.%d", folder ? folder : "", teams.rank, teams.replica);
}

void begin_wait(const char *what, const struct shadow *shadow, int peer, int tag)
{
    bool is_known = shadow && peer >= 0 && peer < shadow->peers;
    int rank = is_known ? shadow->ranks[shadow->first_peer + peer] : -1;
    if (waits.depth++)
        return;
    atomic_store_explicit(&waits.what, what, memory_order_relaxed);
    atomic_store_explicit(&waits.rank, rank, memory_order_relaxed);
    atomic_store_explicit(&waits.tag, tag < 0 ? -1 : tag, memory_order_relaxed);
    atomic_fetch_add(&waits.changes, 1);
}

void end_wait(void)
{
    if (--waits.depth)
        return;
    atomic_fetch_add(&waits.changes, 1);
    if (atomic_exchange(&waits.is_told, false))
        unlink(waits.file);
}

bool is_waiting(void)
{
    return atomic_load(&waits.changes) % 2;
}

/* The program may go on meanwhile, and not see the file yet: then it is removed here. */
static void tell_wait(uint64_t changes)
{
    char line[128];
    int length = snprintf(line, sizeof line, "%s rank %d tag %d\n", atomic_load(&waits.what), atomic_load(&waits.rank),
                          atomic_load(&waits.tag));
    atomic_store(&waits.is_told, true);
    if (atomic_load(&waits.changes) == changes) {
        int file = open(waits.file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ssize_t written = write(file, line, (size_t)length);
        (void)written;
        close(file);
    }
    if (atomic_load(&waits.changes) != changes) {
        atomic_store(&waits.is_told, false);
        unlink(waits.file);
    }
}

void look_at_wait(void)
{
    static uint64_t before;
    static time_t since;
    static bool is_over;
    uint64_t changes = atomic_load(&waits.changes);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (changes != before) {
        before = changes;
        since = now.tv_sec;
        is_over = false;
    }
    if (!waits.patience || changes % 2 == 0 || is_over || now.tv_sec - since < waits.patience)
        return;
    is_over = true;
    tell_wait(changes);
}
