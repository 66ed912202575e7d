/* What is done when a process begins, before the program does.
 *
 * Files are those of a team from now on (see files.h).
 *
 * What replicas print goes to files, from which `rampart mpirun` passes on what most of them agree on. A program may
 * print before it begins with MPI, so a process learns its rank from what launchers tell it.
 *
 * Where memory lies: at the same addresses in all replicas, since programs sort and hash by address. The kernel places
 * it at random, unless the process asks it not to; and the stack lies below the environment, where launchers leave
 * numbers of one digit and of two. So the program is started once more, with an environment of a given size. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "files.h"
#include "identity.h"
#include "map.h"
#include "randomness.h"
#include "time_stamps.h"

/* The native rank of this process; -1 if it is none of the job: a launcher, or a program that it starts. That of Slurm
 * counts only if its launcher has started the job: other launchers start helpers of theirs by it. */
static int native_rank(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID" };
    size_t count = sizeof names / sizeof *names - (getenv("RAMPART_SLURM") ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        const char *text = getenv(names[i]);
        if (text)
            return atoi(text);
    }
    return -1;
}

/* The output of a replica goes to a file of the job's folder. */
static void redirect(int stream, const char *folder, const char *name, int place)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%d", folder, name, place);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0)
        return;
    dup2(file, stream);
    close(file);
}

/* The standard input of the job goes to the first rank, and so to all replicas of it. */
static void read_copy(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/stdin", folder);
    int file = open(path, O_RDONLY);
    if (file < 0)
        return;
    dup2(file, STDIN_FILENO);
    close(file);
}

/* Variables without a meaning, until the program has been started once more. */
#define PADDING "RAMPART_PADDING"

extern char **environ;

/* The environment with so many variables and bytes; null if it has more already. What it needs is never freed: the
 * process becomes another program. */
static char **padded(size_t variables, size_t bytes)
{
    size_t count = 0, used = 0;
    for (; environ[count]; count++)
        used += strlen(environ[count]) + 1;
    size_t empty = count + 1 < variables ? variables - count - 1 : 0, least = sizeof PADDING "=";
    if (count >= variables || used + (empty + 1) * least > bytes)
        return NULL;
    char **all = calloc(variables + 1, sizeof *all), *last = malloc(bytes);
    if (!all || !last)
        return NULL;
    memcpy(all, environ, count * sizeof *all);
    for (size_t i = 0; i < empty; i++)
        all[count + i] = PADDING "=";
    size_t length = bytes - used - empty * least - 1;
    memset(last, '.', length);
    memcpy(last, PADDING "=", least - 1);
    last[length] = '\0';
    all[variables - 1] = last;
    return all;
}

static bool is_placed_alike(void)
{
    int before = personality(0xffffffff);
    if (before == -1 || personality((unsigned)before | ADDR_NO_RANDOMIZE) == -1)
        return false;
    /* Not everywhere does the kernel take the wish. */
    return personality(0xffffffff) & ADDR_NO_RANDOMIZE;
}

/* Where it fails, the program goes on as it is. */
static void place_memory_alike(char **arguments)
{
    unsigned long variables, bytes;
    const char *size = getenv("RAMPART_ENVIRONMENT");
    if (getenv(PADDING) || !size || sscanf(size, "%lu,%lu", &variables, &bytes) != 2 || !is_placed_alike())
        return;
    char **all = padded(variables, bytes);
    if (all)
        execve("/proc/self/exe", arguments, all);
    setenv(PADDING, "", 1);
    execv("/proc/self/exe", arguments);
}

__attribute__((constructor)) static void begin_process(int count, char **arguments)
{
    const char *folder = getenv("RAMPART_REDMPI"), *ranks = getenv("RAMPART_RANKS");
    const char *team = getenv("RAMPART_TEAM"), *rank = getenv("RAMPART_RANK"), *replicas = getenv("RAMPART_REPLICAS");
    int native = native_rank();
    (void)count;
    /* A program that a replica has started sees the files of its team. */
    if (folder && !ranks && team && rank)
        begin_files(folder, atoi(team), atoi(rank));
    if (!folder || !ranks || atoi(ranks) <= 0 || native < 0)
        return;
    place_memory_alike(arguments);
    begin_map(folder, atoi(ranks), replicas ? atoi(replicas) : 0);
    struct seat seat = seat_of(native, atoi(ranks));
    begin_random(folder, seat.rank);
    begin_identity(seat.rank);
    begin_time_stamps(folder);
    begin_files(folder, seat.replica, seat.rank);
    if (seat.rank == 0)
        read_copy(folder);
    redirect(STDOUT_FILENO, folder, "stdout", seat.replica * atoi(ranks) + seat.rank);
    redirect(STDERR_FILENO, folder, "stderr", seat.replica * atoi(ranks) + seat.rank);
    /* As on a terminal: what is printed is seen, line by line. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Programs that this one starts are no replicas, and print where it wants. */
    unsetenv("RAMPART_RANKS");
    unsetenv(PADDING);
}
