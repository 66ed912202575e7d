/* See drops.h. */
#include "drops.h"

#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "life.h"
#include "log.h"
#include "requests.h"

/* Between two looks while a process sleeps. What others send it goes on meanwhile. */
#define LOOK_NS 5000000

static _Atomic uint32_t out;
static _Atomic(const char *) needs_all;
static atomic_bool is_asleep, is_over;
static bool may;

bool may_drop(void)
{
    return may;
}

uint32_t teams_out(void)
{
    return atomic_load_explicit(&out, memory_order_relaxed);
}

int live_teams(void)
{
    return teams.replicas - __builtin_popcount(teams_out());
}

uint32_t others_left(void)
{
    uint32_t all = (UINT32_C(1) << teams.replicas) - 1;
    return all & ~teams_out() & ~(UINT32_C(1) << teams.replica);
}

int first_team(void)
{
    return __builtin_ctz(~teams_out());
}

static void stop_here(const char *why)
{
    tell("stopped %s", why);
    end_process();
}

uint32_t leave_teams_out(uint32_t more)
{
    uint32_t news = more & ~atomic_fetch_or(&out, more);
    const char *why = atomic_load(&needs_all);
    if (news && live_teams() < 2)
        stop_here("replicas have left their common path, and no two teams are left");
    if (news && why)
        stop_here(why);
    return news;
}

void need_all_teams(const char *why)
{
    atomic_store(&needs_all, why);
    if (teams_out())
        stop_job("%s", why);
}

/* Never returns: what the program would do next is wrong. */
static _Noreturn void sleep_until_end(void)
{
    atomic_store(&is_asleep, true);
    tell("asleep");
    while (!atomic_load(&is_over)) {
        let_mpi_go_on();
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
    }
    teams.is_quiet = true;
    finalize_mpi();
    _exit(0);
}

void stay_in(void)
{
    if (is_out(teams.replica) && pthread_equal(pthread_self(), teams.thread))
        sleep_until_end();
}

void end_sleep(void)
{
    atomic_store(&is_over, true);
}

static void interrupt(int signal)
{
    (void)signal;
    stay_in();
}

void stop_program(void)
{
    static int looks;
    /* First it may come to a place where it looks itself. */
    if (!is_out(teams.replica) || atomic_load(&is_asleep) || ++looks != 2)
        return;
    sigaction(SIGURG, &(struct sigaction){ .sa_handler = interrupt }, NULL);
    pthread_kill(teams.thread, SIGURG);
}

void begin_drops(void)
{
    may = getenv("RAMPART_DROP_TEAMS") && teams.replicas > 2 && !compares_later() && !keeps_all() && !goes_on();
}
