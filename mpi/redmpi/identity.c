/* See identity.h. */
#include "identity.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "callers.h"
#include "randomness.h"
#include "requests.h"
#include "teams.h"

/* Of glibc since 2.30. */
pid_t gettid(void);
int tgkill(pid_t group, pid_t thread, int signal);

/* The kernel's numbers are below [Linux, include/linux/threads.h: PID_MAX_LIMIT]. */
#define KERNEL_END (1 << 22)

/* A process that the program knows by another number. */
struct known {
    pid_t real, shown;
};

static struct {
    bool has_begun;
    struct known own, parent;
    char node[sizeof((struct utsname *)0)->nodename]; /* empty before MPI_Init */
} identity;

pid_t real_pid(void)
{
    REAL(getpid);
    return real();
}

/* The kernel's answer: an older C library has no function for it. */
static pid_t real_tid(void)
{
    REAL(syscall);
    return (pid_t)real(SYS_gettid);
}

void begin_identity(int rank)
{
    REAL(getppid);
    uint32_t drawn = drawn_for_job();
    /* Room for all ranks is left above it. */
    pid_t first = KERNEL_END + (pid_t)(drawn % (INT_MAX - 2 * KERNEL_END));
    identity.own = (struct known){ .real = real_pid(), .shown = first + 1 + rank % KERNEL_END };
    identity.parent = (struct known){ .real = real(), .shown = first };
    identity.has_begun = true;
}

const char *shared_node(void)
{
    return identity.node;
}

void share_node(void)
{
    REAL(uname);
    struct utsname name;
    if (real(&name))
        memset(&name, 0, sizeof name);
    MPI_Request request;
    PMPI_Ibcast(name.nodename, sizeof name.nodename, MPI_CHAR, 0, teams.column, &request);
    complete_alone(&request);
    memcpy(identity.node, name.nodename, sizeof name.nodename);
}

bool is_in_order(void)
{
    return teams.is_quiet ? real_tid() == identity.own.real : pthread_equal(pthread_self(), teams.thread);
}

/* What the program knows a process by. */
static pid_t shown(pid_t pid, const void *caller)
{
    bool is_own = pid == identity.own.real, is_known = is_own || pid == identity.parent.real;
    if (!identity.has_begun || !is_known || comes_from_mpi(caller))
        return pid;
    return is_own ? identity.own.shown : identity.parent.shown;
}

/* The process that is meant by a number, or the group of processes by a negative one. No other has such a number, so it
 * is the same whoever asks. */
static pid_t meant(pid_t pid)
{
    pid_t number = pid < 0 && pid != INT_MIN ? -pid : pid, real = number;
    if (number <= KERNEL_END)
        return pid;
    if (number == identity.own.shown)
        real = identity.own.real;
    else if (number == identity.parent.shown)
        real = identity.parent.real;
    return pid < 0 ? -real : real;
}

const char *path_of_process(const char *path, char *room)
{
    static const char folder[] = "/proc/";
    char *rest;
    if (!identity.has_begun || !path || strncmp(path, folder, sizeof folder - 1))
        return path;
    long number = strtol(path + sizeof folder - 1, &rest, 10);
    if ((number != identity.own.shown && number != identity.parent.shown) || (*rest && *rest != '/'))
        return path;
    return snprintf(room, PATH_MAX, "%s%d%s", folder, meant((pid_t)number), rest) < PATH_MAX ? room : path;
}

pid_t getpid(void)
{
    return shown(real_pid(), CALLER);
}

/* In a child of the program it is the number by which that knows itself. */
pid_t getppid(void)
{
    REAL(getppid);
    return shown(real(), CALLER);
}

/* The first thread has the number of its process. */
pid_t gettid(void)
{
    return shown(real_tid(), CALLER);
}

pid_t getpgrp(void)
{
    REAL(getpgrp);
    return shown(real(), CALLER);
}

pid_t getpgid(pid_t pid)
{
    REAL(getpgid);
    return shown(real(meant(pid)), CALLER);
}

pid_t getsid(pid_t pid)
{
    REAL(getsid);
    return shown(real(meant(pid)), CALLER);
}

/* A user may have any number. */
static id_t whose(__priority_which_t which, id_t who)
{
    return which == PRIO_USER ? who : (id_t)meant((pid_t)who);
}

/* Functions that take the number of a process. */
#define TAKES(result, name, parameters, arguments) \
    result name parameters                         \
    {                                              \
        REAL(name);                                \
        return real arguments;                     \
    }
TAKES(int, kill, (pid_t pid, int signal), (meant(pid), signal))
TAKES(int, sigqueue, (pid_t pid, int signal, const union sigval value), (meant(pid), signal, value))
TAKES(int, tgkill, (pid_t group, pid_t thread, int signal), (meant(group), meant(thread), signal))
TAKES(int, killpg, (pid_t group, int signal), (meant(group), signal))
TAKES(int, setpgid, (pid_t pid, pid_t group), (meant(pid), meant(group)))
TAKES(pid_t, waitpid, (pid_t pid, int *status, int options), (meant(pid), status, options))
TAKES(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *cpus), (meant(pid), size, cpus))
TAKES(int, sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *cpus), (meant(pid), size, cpus))
TAKES(int, sched_getscheduler, (pid_t pid), (meant(pid)))
TAKES(int, sched_setscheduler, (pid_t pid, int policy, const struct sched_param *wish), (meant(pid), policy, wish))
TAKES(int, sched_getparam, (pid_t pid, struct sched_param *found), (meant(pid), found))
TAKES(int, sched_setparam, (pid_t pid, const struct sched_param *wish), (meant(pid), wish))
TAKES(int, getpriority, (__priority_which_t which, id_t who), (which, whose(which, who)))
TAKES(int, setpriority, (__priority_which_t which, id_t who, int priority), (which, whose(which, who), priority))
TAKES(int, prlimit, (pid_t pid, __rlimit_resource_t resource, const struct rlimit *new, struct rlimit *old),
      (meant(pid), resource, new, old))
TAKES(int, prlimit64, (pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *new, struct rlimit64 *old),
      (meant(pid), resource, new, old))

/* Programs call the kernel themselves where older libraries lack a function. */
long syscall(long number, ...)
{
    REAL(syscall);
    long all[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        all[i] = va_arg(rest, long);
    va_end(rest);
    switch (number) {
    case SYS_getrandom:
        return getrandom_for((void *)all[0], (size_t)all[1], (unsigned)all[2], CALLER);
    case SYS_perf_event_open:
        all[1] = meant((pid_t)all[1]);
        break;
    case SYS_tgkill:
        all[1] = meant((pid_t)all[1]);
        /* fallthrough */
    case SYS_kill:
    case SYS_tkill:
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
    case SYS_sched_getscheduler:
    case SYS_sched_setscheduler:
    case SYS_prlimit64:
    case SYS_move_pages:
    case SYS_process_vm_readv:
    case SYS_process_vm_writev:
#ifdef SYS_pidfd_open
    case SYS_pidfd_open:
#endif
        all[0] = meant((pid_t)all[0]);
    }
    long result = real(number, all[0], all[1], all[2], all[3], all[4], all[5]);
    bool is_number = number == SYS_getpid || number == SYS_gettid || number == SYS_getppid;
    return is_number ? shown((pid_t)result, CALLER) : result;
}

static bool is_node_shown(const void *caller)
{
    return *identity.node && !comes_from_mpi(caller);
}

int uname(struct utsname *name)
{
    REAL(uname);
    int result = real(name);
    if (!result && is_node_shown(CALLER))
        memcpy(name->nodename, identity.node, sizeof identity.node);
    return result;
}

static int give_node(char *name, size_t room)
{
    size_t bytes = strlen(identity.node) + 1;
    memcpy(name, identity.node, bytes < room ? bytes : room);
    if (bytes <= room)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

int gethostname(char *name, size_t room)
{
    REAL(gethostname);
    return is_node_shown(CALLER) ? give_node(name, room) : real(name, room);
}

/* What the compiler calls instead where it knows the room. */
int __gethostname_chk(char *name, size_t room, size_t most);
int __gethostname_chk(char *name, size_t room, size_t most)
{
    REAL(__gethostname_chk);
    return is_node_shown(CALLER) && room <= most ? give_node(name, room) : real(name, room, most);
}
