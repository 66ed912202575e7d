/* See events.h. */
#include "events.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deaths.h"
#include "leaving.h"
#include "log.h"

static int file = -1;

int open_report(const char *name, int flags, int rank, int replica)
{
    const char *folder = getenv("RAMPART_REDMPI");
    char path[4096];
    if (!folder)
        return -1;
    snprintf(path, sizeof path, "%s/%s.%d.%d", folder, name, rank, replica);
    return open(path, flags | O_CREAT | O_CLOEXEC, 0600);
}

void begin_events(int rank, int replica)
{
    file = open_report("events", O_WRONLY | O_APPEND, rank, replica);
}

static void write_line(int to, const char *line, size_t length)
{
    /* A line that cannot be written has nowhere to be complained of. */
    ssize_t written = write(to, line, length);
    (void)written;
}

static void tell_all(const char *format, va_list arguments)
{
    char line[1024];
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    if (length < 0)
        return;
    size_t end = (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[end++] = '\n';
    write_line(file < 0 ? STDERR_FILENO : file, line, end);
}

void tell(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell_all(format, arguments);
    va_end(arguments);
}

long long event_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

bool is_due(int64_t *last, int64_t every)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t now = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    if (now - *last < every)
        return false;
    *last = now;
    return true;
}

static _Noreturn void end_job(const char *event, const char *format, va_list arguments)
{
    char why[900];
    vsnprintf(why, sizeof why, format, arguments);
    if (file < 0)
        begin_events(0, 0); /* before MPI_Init: all have the same to say */
    tell("%s %s", event, why);
    let_others_compare();
    leave_at_once();
    PMPI_Abort(MPI_COMM_WORLD, STOPPED);
    abort();
}

void stop_job(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end_job("stopped", format, arguments);
}

void leave_path(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end_job("diverged", format, arguments);
}

void end_process(void)
{
    if (outlives_deaths())
        PMPI_Abort(MPI_COMM_WORLD, STOPPED);
    _exit(STOPPED);
}

static bool wishes(const char *what)
{
    const char *wish = getenv("RAMPART_ON_MISMATCH");
    return wish && !strcmp(wish, what);
}

bool keeps_all(void)
{
    return wishes("keep");
}

bool goes_on(void)
{
    return wishes("continue");
}

void no_majority(const char *what)
{
    if (!keeps_all() && !goes_on())
        stop_job("replicas differ in a %s, and there is no majority", what);
}
