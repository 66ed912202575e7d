/* See log.h. */
#include "log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "connections.h"
#include "decisions.h"
#include "events.h"
#include "history.h"
#include "progress.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "timesteps.h"

/* Between two looks while this process waits for others; and what they need to compare what they have. */
#define LOOK_NS 100000
#define COMPARE_NS 900000000

/* What was received, for the report. */
struct entry {
    struct mark mark;
    const char *what;
    int comm, peer, sender, tag;
    uint64_t bytes, step;
};

static struct entry entries[LOG_PLACES];
static _Atomic uint64_t written, freed;
static uint64_t given_out;
static bool is_on;

bool compares_later(void)
{
    return is_on;
}

int teams_beside(void)
{
    return is_on ? 0 : compared_teams(teams.replicas);
}

void begin_log(void)
{
    const char *mode = getenv("RAMPART_MODE");
    is_on = mode && !strcmp(mode, "later");
}

static struct entry *entry_of(uint64_t number)
{
    return &entries[number % LOG_PLACES];
}

static void pause_for(long nanoseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = nanoseconds }, NULL);
}

/* Until so many entries are compared. Meanwhile the MPI goes on: others may need what this process sends. */
static void wait_for_free(uint64_t number)
{
    flush_decisions();
    while (atomic_load_explicit(&freed, memory_order_acquire) < number) {
        pause_for(LOOK_NS);
        advance_receives();
        let_mpi_go_on();
    }
}

static struct mark mark_of(const struct digest *digest, const struct origin *origin)
{
    struct mark mark;
    steps_done(&mark.path);
    mark.content = mix(mix(mix(digest->low, digest->high), digest->bytes),
                       (uint64_t)origin->peer << 32 | (uint32_t)origin->tag);
    return mark;
}

void log_received(const struct digest *digest, const struct origin *origin)
{
    uint64_t number = logged() + 1;
    if (number > LOG_PLACES && atomic_load_explicit(&freed, memory_order_acquire) < number - LOG_PLACES)
        wait_for_free(number - LOG_PLACES);
    *entry_of(number) = (struct entry){ .mark = mark_of(digest, origin),
                                        .what = origin->what,
                                        .comm = origin->shadow->number,
                                        .peer = origin->peer,
                                        .sender = sender_of(origin),
                                        .tag = origin->tag,
                                        .bytes = digest->bytes,
                                        .step = timestep() };
    atomic_store_explicit(&written, number, memory_order_release);
    note_progress(number, 0);
    if (number % (LOG_PLACES / 4) == 0)
        wake_connections();
}

uint64_t logged(void)
{
    return atomic_load_explicit(&written, memory_order_relaxed);
}

void finish_log(void)
{
    wake_connections();
    wait_for_free(logged());
}

uint64_t cpu_time(clockid_t clock)
{
    struct timespec used = { 0 };
    clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

void let_others_compare(void)
{
    if (is_on)
        pause_for(COMPARE_NS);
}

uint64_t next_marks(struct mark *marks, uint64_t most)
{
    uint64_t count = atomic_load_explicit(&written, memory_order_acquire) - given_out;
    if (count > most)
        count = most;
    for (uint64_t i = 0; i < count; i++)
        marks[i] = entry_of(++given_out)->mark;
    return count;
}

void free_entries(uint64_t compared)
{
    atomic_store_explicit(&freed, compared, memory_order_release);
}

void report_entry(uint64_t number, uint32_t wrong)
{
    const struct entry *entry = entry_of(number);
    tell("mismatch %s comm %d peer %d sender %d tag %d bytes %llu offset -1 number %llu step %llu wrong %#x %s",
         entry->what, entry->comm, entry->peer, entry->sender, entry->tag, (unsigned long long)entry->bytes,
         (unsigned long long)number, (unsigned long long)entry->step, wrong, wrong ? "kept" : "undecided");
}
