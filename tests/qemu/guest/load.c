/* load LOW HIGH PHASES SEED PAUSE: programs and files that come and go, and know nothing of what watches them.

   Each phase wants LOW to HIGH per cent of the machine's memory: two thirds of it in processes of 4 to 64 MiB, each of
   which gives a random fifth of its pages back, and one third in files below /tmp of 1 KiB to 1 MiB, seven of ten up
   to 16 KiB. A third of both ends with each phase. Prints "phase N wanted P" once a phase has grown to P per cent, then
   rests for PAUSE seconds. A process that cannot get its memory, or a file that cannot be written, ends the load with
   exit code 1.
   ALL_KIB is the machine's memory, if some of it is offline already. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, MOST_PROCESSES = 400, MOST_FILES = 400000, FOLDERS = 97, KIB = 1024 };

static uint64_t state;

static uint64_t dice(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static struct { pid_t id; long kib; } processes[MOST_PROCESSES];
static struct { int name; long kib; } files[MOST_FILES];
static long process_count, process_kib, file_count, file_kib;
static int names;
static char content[1024 * KIB];

static void hold(char *memory, long pages, int ready) {
    for (long page = 0; page < pages; page++) memory[page * PAGE] = (char)page;
    for (long shed = 0; shed < pages / 5; shed++)
        madvise(memory + dice() % (uint64_t)pages * PAGE, PAGE, MADV_DONTNEED);
    must(write(ready, "", 1) == 1, "pipe");
    for (;;) {
        for (int touch = 0; touch < 200; touch++) memory[dice() % (uint64_t)pages * PAGE] ^= 1;
        usleep(200000);
    }
}

static void start_process(long kib) {
    int ready[2];
    char byte;
    must(pipe(ready) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        long bytes = kib * KIB;
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(memory != MAP_FAILED, "mmap");
        hold(memory, bytes / PAGE, ready[1]);
    }
    close(ready[1]);
    must(read(ready[0], &byte, 1) == 1, "a process got no memory");
    close(ready[0]);
    processes[process_count].id = child;
    processes[process_count++].kib = kib;
    process_kib += kib;
}

static void end_process(long which) {
    int status;
    kill(processes[which].id, SIGKILL);
    waitpid(processes[which].id, &status, 0);
    process_kib -= processes[which].kib;
    processes[which] = processes[--process_count];
}

static const char *path(int name) {
    static char text[64];
    snprintf(text, sizeof text, "/tmp/load/%d/%d", name % FOLDERS, name);
    return text;
}

static void make_file(void) {
    uint64_t kind = dice() % 100;
    long bytes = kind < 70 ? KIB + (long)(dice() % (15 * KIB)) : kind < 95 ? 16 * KIB + (long)(dice() % (184 * KIB)) : 1024 * KIB;
    int file = open(path(names), O_CREAT | O_WRONLY, 0644);
    must(file >= 0, "open");
    must(write(file, content, bytes) == bytes, "write");
    close(file);
    files[file_count].name = names++;
    files[file_count++].kib = bytes / KIB;
    file_kib += bytes / KIB;
}

static void remove_file(long which) {
    must(unlink(path(files[which].name)) == 0, "unlink");
    file_kib -= files[which].kib;
    files[which] = files[--file_count];
}

static long memory_kib(void) {
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    must(file != NULL && fgets(line, sizeof line, file) && sscanf(line, "MemTotal: %ld", &kib) == 1, "meminfo");
    fclose(file);
    return kib;
}

int main(int count, char **arguments) {
    must(count == 6, "load LOW HIGH PHASES SEED PAUSE");
    long low = atol(arguments[1]), high = atol(arguments[2]), phases = atol(arguments[3]);
    /* All memory, before anything goes offline. */
    long all = getenv("ALL_KIB") ? atol(getenv("ALL_KIB")) : memory_kib();
    state = 88172645463325252ULL ^ strtoull(arguments[4], NULL, 10) * 0x9e3779b97f4a7c15ULL;
    mkdir("/tmp/load", 0755);
    for (int folder = 0; folder < FOLDERS; folder++) {
        char text[64];
        snprintf(text, sizeof text, "/tmp/load/%d", folder);
        mkdir(text, 0755);
    }
    for (long phase = 0; phase < phases; phase++) {
        long wanted = all / 100 * (low + (long)(dice() % (uint64_t)(high - low + 1)));
        long in_processes = wanted / 3 * 2, in_files = wanted / 3;
        for (long left = process_count / 3; left > 0; left--) end_process(dice() % process_count);
        while (process_kib > in_processes && process_count > 0) end_process(dice() % process_count);
        for (long left = file_count / 3; left > 0; left--) remove_file(dice() % file_count);
        while (file_kib > in_files && file_count > 0) remove_file(dice() % file_count);
        while (process_kib < in_processes && process_count < MOST_PROCESSES) {
            start_process(4096 + (long)(dice() % 61440));
            for (int burst = 0; burst < 40 && file_kib < in_files; burst++) make_file();
        }
        while (file_kib < in_files && file_count < MOST_FILES) make_file();
        printf("phase %ld wanted %ld\n", phase, wanted / (all / 100));
        fflush(stdout);
        sleep((unsigned)atoi(arguments[5]));
    }
    puts("done");
    return 0;
}
