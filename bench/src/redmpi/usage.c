/* Preloaded into the ranks of a job: leaves what each of them used, in the folder of RAMPART_USAGE, when it ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((destructor)) static void leave_usage(void)
{
    const char *folder = getenv("RAMPART_USAGE");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct rusage used;
    char path[4096];
    if (!rank)
        rank = getenv("PMI_RANK");
    if (!folder || !rank)
        return;
    /* Not by the C library: replicas share its clocks and its files. */
    syscall(SYS_getrusage, RUSAGE_SELF, &used);
    /* Replicas of a rank have one process id, ranks of several jobs the same numbers. */
    snprintf(path, sizeof path, "%s/%d.%s", folder, getpid(), rank);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0600);
    double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
    dprintf(file, "%.6f %ld %ld\n", seconds + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec),
            used.ru_nvcsw, used.ru_nivcsw);
    close(file);
}
