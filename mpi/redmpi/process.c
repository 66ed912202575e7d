/* What is done when a process begins, before the program does.
 *
 * Files are those of a team from now on (see files.h).
 *
 * What replicas print goes to files, from which `rampart mpirun` passes on what most of them agree on. A program may
 * print before it begins with MPI, so a process learns its rank from what launchers tell it.
 *
 * Where memory lies: at the same addresses in all replicas, since programs sort and hash by address. The kernel places
 * it at random, unless the process asks it not to; then the program must be started once more. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

static void place_memory_alike(char **arguments)
{
    int before = personality(0xffffffff);
    if (before == -1 || before & ADDR_NO_RANDOMIZE || personality((unsigned)before | ADDR_NO_RANDOMIZE) == -1)
        return;
    /* Where the kernel does not take the wish, this would go on for ever. */
    if (personality(0xffffffff) & ADDR_NO_RANDOMIZE)
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
}
