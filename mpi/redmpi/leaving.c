/* See leaving.h. */
#include "leaving.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "callers.h"
#include "connections.h"
#include "deaths.h"
#include "drops.h"
#include "events.h"
#include "handlers.h"
#include "history.h"
#include "spare_heap.h"
#include "teams.h"
#include "waits.h"

/* For the handler, which calls the MPI: the program's own stack may be what has overflowed. */
#define STACK_BYTES (1 << 20)

/* Frames of the program's stack that are looked at. */
#define FRAMES 64

/* For how long a thread of such a process is waited for. */
#define JOIN_SECONDS 1

/* Looks, of which there is one a second, for which such a process may take to finalize the MPI. */
#define STUCK_LOOKS 10

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
#define CRASHES (sizeof crashes / sizeof *crashes)

static struct sigaction before[CRASHES];
static bool is_leaving, is_injected;

void leave_at_once(void)
{
    is_leaving = true;
}

static bool may_leave_alone(void)
{
    return !teams.is_quiet && !is_leaving && may_drop() && pthread_equal(pthread_self(), teams.thread);
}

/* Whether it is one of heap.c, behind which is the C library's. */
static bool is_of_heap(const void *caller)
{
    static const char *const names[] = { "malloc", "calloc", "realloc", "free", "memalign", "valloc", "pvalloc" };
    Dl_info of;
    if (!dladdr(caller, &of) || !of.dli_sname)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(of.dli_sname, names[i]))
            return true;
    }
    return false;
}

static sigjmp_buf end_of_stack;

static void stop_at_damage(int number)
{
    if (pthread_equal(pthread_self(), teams.thread))
        siglongjmp(end_of_stack, 1);
    signal(number, SIG_DFL);
}

/* The kernel ends a process that crashes in the handler of the same signal. */
static void unblock_crashes(void)
{
    sigset_t all;
    sigemptyset(&all);
    for (size_t i = 0; i < CRASHES; i++)
        sigaddset(&all, crashes[i]);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL);
}

/* The callers of one that has crashed, up to where the stack is damaged. */
static void find_callers(void *frames[FRAMES])
{
    struct sigaction stop = { .sa_handler = stop_at_damage, .sa_flags = SA_ONSTACK }, of_segv, of_bus;
    sigaction(SIGSEGV, &stop, &of_segv);
    sigaction(SIGBUS, &stop, &of_bus);
    if (!sigsetjmp(end_of_stack, true)) {
        unblock_crashes();
        backtrace(frames, FRAMES);
    }
    sigaction(SIGSEGV, &of_segv, NULL);
    sigaction(SIGBUS, &of_bus, NULL);
}

/* Whether a call of the MPI, or of this library, has led here. The first frames are those of this file. */
static bool is_in_mpi(enum way_out way)
{
    static void *frames[FRAMES];
    int i = 0;
    memset(frames, 0, sizeof frames);
    if (way == OUT_BY_CRASH)
        find_callers(frames);
    else
        backtrace(frames, FRAMES);
    while (i < FRAMES && frames[i] && comes_from_mpi(frames[i]))
        i++;
    for (; i < FRAMES && frames[i]; i++) {
        if (comes_from_mpi(frames[i]) && !is_of_heap(frames[i]))
            return true;
    }
    return false;
}

/* To wait takes the MPI, which is not called out of its own calls, but for those of error handlers. Fortran's are not
 * known here; with them, a death in the process's team may be the reason. */
static bool may_wait(enum way_out way)
{
    return is_injected || is_handling_error() || (way == OUT_BY_ABORT && outlives_deaths()) || !is_in_mpi(way);
}

static void tell_way_out(enum way_out way, int number)
{
    static const char *const ways[] = { "crash", "abort", "exit", "error" };
    char name[MPI_MAX_ERROR_STRING + 2] = " ";
    int length = 0;
    if (way == OUT_BY_ERROR)
        PMPI_Error_string(number, name + 1, &length);
    name[length ? length + 1 : 0] = '\0';
    tell("leaves %s %d at %lld%s", ways[way], number, event_time(), name);
}

void leave_with_others(enum way_out way, int number)
{
    static const char *const calls[] = { "a crash", "MPI_Abort", "exit", "an error of the MPI" };
    if (!may_leave_alone() || !may_wait(way))
        return;
    is_leaving = true;
    record_step(STEP_LEAVE, (int64_t)way, number, 0);
    tell_way_out(way, number);
    begin_wait(calls[way], NULL, -1, -1);
    leave_with_those_left();
    end_wait();
}

/* What would have happened without this file happens when the handler returns: the instruction is tried once more. A
 * signal that another process has sent comes once more. */
static void crash_as_usual(int signal, const siginfo_t *info)
{
    for (size_t i = 0; i < CRASHES; i++) {
        if (crashes[i] == signal)
            sigaction(signal, &before[i], NULL);
    }
    if (info->si_code <= 0)
        raise(signal);
}

/* What the crash has left of its memory is not enough to finalize the MPI. The launcher then ends the other processes,
 * which have all come to their ends. */
static _Noreturn void end_unfinalized(void)
{
    tell("unfinalized");
    _exit(1);
}

static void see_crash(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (uses_spare_heap() && teams.is_quiet)
        end_unfinalized();
    if (may_leave_alone() && may_wait(OUT_BY_CRASH) && begin_spare_heap()) {
        unblock_crashes();
        leave_with_others(OUT_BY_CRASH, signal);
    }
    /* The launcher may end the others before they can say who is missing. */
    if (!teams.is_quiet && !is_leaving)
        tell("crashes %d at %lld", signal, event_time());
    crash_as_usual(signal, info);
}

void end_if_stuck(bool are_all_others_done)
{
    static int looks;
    looks = uses_spare_heap() && teams.is_quiet && are_all_others_done ? looks + 1 : 0;
    if (looks == STUCK_LOOKS)
        end_unfinalized();
}

/* A thread that ends gives memory back to the old heap, and may wait for its lock for ever: the MPI joins its own. */
int pthread_join(pthread_t thread, void **result)
{
    REAL(pthread_join);
    if (!uses_spare_heap())
        return real(thread, result);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += JOIN_SECONDS;
    pthread_timedjoin_np(thread, result, &until);
    return 0;
}

void crash(void)
{
    is_injected = true;
    raise(SIGSEGV);
}

void leave_by_exit(void)
{
    is_injected = true;
    exit(EXIT_FAILURE);
}

/* Handlers of the MPI and of Fortran only say where the program was, and end it. Rampart's guard has one that mends. */
static bool is_replaceable(const struct sigaction *action)
{
    bool is_long = action->sa_flags & SA_SIGINFO;
    const void *handler = is_long ? (const void *)action->sa_sigaction : (const void *)action->sa_handler;
    Dl_info of;
    if (!is_long && action->sa_handler == SIG_DFL)
        return true;
    if (!dladdr(handler, &of) || !of.dli_fname || strstr(of.dli_fname, "librampart-"))
        return false;
    return comes_from_mpi(handler) || strstr(of.dli_fname, "libgfortran");
}

/* Unless the program has one. */
static bool give_stack(void)
{
    stack_t stack;
    sigaltstack(NULL, &stack);
    if (!(stack.ss_flags & SS_DISABLE))
        return true;
    void *room = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && !sigaltstack(&(stack_t){ .ss_sp = room, .ss_size = STACK_BYTES }, NULL);
}

void begin_leaving(void)
{
    if (!may_drop() || !give_stack())
        return;
    /* What it loads at first cannot be loaded in a handler. */
    is_in_mpi(OUT_BY_EXIT);
    for (size_t i = 0; i < CRASHES; i++) {
        struct sigaction own = { .sa_sigaction = see_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK };
        sigaction(crashes[i], NULL, &before[i]);
        if (is_replaceable(&before[i]))
            sigaction(crashes[i], &own, NULL);
    }
}
