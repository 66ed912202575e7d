/* counted FILE KEEPER LOG COMMAND ARGUMENT...: runs a command, and prints what it cost the whole machine.

   The command's output goes to FILE. KEEPER is the process of `rampart banks pools`, 0 if there is none, and LOG what
   it prints. The line on standard output is KEY=VALUE, a space between them:

     instructions  all that the machine executed meanwhile, without what it was idle
     idle          for how long it was idle, in units of an instruction
     user, system  the command's and its children's; their sum is exact, the split is by the kernel's tick
     keeper        the instructions of KEEPER
     minor, major  faults of the command and its children
     result        a checksum of FILE
     exit          the exit code
     moves         lines of LOG that say that a block went, or did not go, to another pool
     and counters of /proc/vmstat, those of one kind as a sum

   For machines that are emulated with a clock that counts instructions: a nanosecond is one instruction, and so is a
   tick of the time stamp counter. A command that does not sleep leaves nothing idle.
   It reads counters by an instruction of x86-64 only. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

static const struct { const char *name, *prefixes[3]; } KINDS[] = {
    {"faults", {"pgfault "}},
    {"major_faults", {"pgmajfault "}},
    {"migrated", {"pgmigrate_success "}},
    {"not_migrated", {"pgmigrate_fail "}},
    {"refaults_file", {"workingset_refault_file "}},
    {"refaults_anon", {"workingset_refault_anon "}},
    {"stolen", {"pgsteal_kswapd ", "pgsteal_direct ", "pgsteal_khugepaged "}},
    {"compactions", {"compact_stall ", "compact_daemon_wake "}},
    {"stalls", {"allocstall_"}},
    {"huge", {"thp_fault_alloc "}},
    {"oom_kills", {"oom_kill "}},
};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static void must(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(125);
}

static void add(uint64_t *counts, const char *line) {
    for (int kind = 0; kind < KIND_COUNT; kind++)
        for (int index = 0; index < 3 && KINDS[kind].prefixes[index]; index++)
            if (!strncmp(line, KINDS[kind].prefixes[index], strlen(KINDS[kind].prefixes[index])))
                counts[kind] += strtoull(strchr(line, ' '), NULL, 10);
}

static void read_counters(uint64_t *counts) {
    char line[256];
    FILE *file = fopen("/proc/vmstat", "r");
    must(file != NULL, "/proc/vmstat");
    memset(counts, 0, KIND_COUNT * sizeof *counts);
    while (fgets(line, sizeof line, file)) add(counts, line);
    fclose(file);
}

/* All processors' idle time: only this file has it in nanoseconds. */
static uint64_t idle(void) {
    char line[256];
    uint64_t sum = 0, found = 0;
    FILE *file = fopen("/proc/timer_list", "r");
    must(file != NULL, "/proc/timer_list");
    while (fgets(line, sizeof line, file)) {
        const char *value = strstr(line, "idle_sleeptime");
        if (value) sum += strtoull(strchr(value, ':') + 1, NULL, 10), found = 1;
    }
    fclose(file);
    must(found, "no idle_sleeptime");
    return sum;
}

static uint64_t ran(const char *process) {
    char path[64];
    unsigned long long nanoseconds = 0;
    if (!strcmp(process, "0")) return 0;
    snprintf(path, sizeof path, "/proc/%s/schedstat", process);
    FILE *file = fopen(path, "r");
    must(file && fscanf(file, "%llu", &nanoseconds) == 1, path);
    fclose(file);
    return nanoseconds;
}

static uint64_t moves(const char *log) {
    char line[512];
    uint64_t count = 0;
    FILE *file = fopen(log, "r");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) count += !strncmp(line, "block ", 6);
    fclose(file);
    return count;
}

/* FNV-1a. */
static uint64_t checksum(const char *path) {
    uint64_t hash = 0xcbf29ce484222325;
    int next;
    FILE *file = fopen(path, "r");
    must(file != NULL, path);
    while ((next = fgetc(file)) != EOF) hash = (hash ^ (uint64_t)next) * 0x100000001b3;
    fclose(file);
    return hash;
}

static uint64_t nanoseconds(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

int main(int count, char **arguments) {
    must(count > 4, "counted FILE KEEPER LOG COMMAND");
    uint64_t before[KIND_COUNT], after[KIND_COUNT];
    int status;
    int file = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(file >= 0, arguments[1]);
    uint64_t moved = moves(arguments[3]);
    read_counters(before);
    uint64_t keeper = ran(arguments[2]), rested = idle(), began = __rdtsc();
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        dup2(file, 1);
        execvp(arguments[4], arguments + 4);
        must(0, arguments[4]);
    }
    must(waitpid(child, &status, 0) == child, "wait");
    uint64_t ended = __rdtsc();
    rested = idle() - rested;
    keeper = ran(arguments[2]) - keeper;
    read_counters(after);
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    printf("instructions=%llu idle=%llu user=%llu system=%llu keeper=%llu minor=%ld major=%ld result=%016llx exit=%d moves=%llu",
           (unsigned long long)(ended - began - rested), (unsigned long long)rested,
           (unsigned long long)nanoseconds(used.ru_utime), (unsigned long long)nanoseconds(used.ru_stime),
           (unsigned long long)keeper, used.ru_minflt, used.ru_majflt, (unsigned long long)checksum(arguments[1]),
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
           (unsigned long long)(moves(arguments[3]) - moved));
    for (int kind = 0; kind < KIND_COUNT; kind++)
        printf(" %s=%llu", KINDS[kind].name, (unsigned long long)(after[kind] - before[kind]));
    printf("\n");
    return 0;
}
