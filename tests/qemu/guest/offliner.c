/* offliner POLICY: takes memory blocks offline and brings them back online, as others do. Runs until it is killed.

   random        any block that the kernel does not refuse at once
   cheapest      of the blocks without memory of the kernel, the one with the least to move
   movablecore   the same, of the blocks of ZONE_MOVABLE, which `movablecore=` made at boot
   auto-movable  as cheapest; `memory_hotplug.online_policy=auto-movable` at boot says where blocks come back
   chmem         as many blocks at once as there is room for, by chmem of util-linux, which begins at the highest
   virtio-mem    no block: the host takes 128 MiB back by virtio-mem, and the kernel's driver finds them

   For all: 5 % of memory stays free as a reserve. As soon as less than three quarters of it are free, which is about
   where `rampart banks pools` does so, a block comes online, the highest one. A block goes offline only if memory was
   idle for 2 s. An attempt that takes longer than 5 s, or during which memory runs short, is ended by a signal. A block
   that stayed online is not tried for 1 s, then 2 s, 4 s and so on; with chmem and virtio-mem, none is. Looks every
   50 ms, and is locked in RAM. Prints "block N: from online to offline", "block N: from offline to online", or
   "block N: stays in online, and does not go to offline: WHY".

   With virtio-mem, an attempt lowers requested-size to the next multiple of 128 MiB. If it fails, what the device has
   by then is requested: the part that went stays away. As much as the reserve lacks comes back at once, up to a
   multiple of 128 MiB, and an attempt is made again as soon as memory was idle. N counts the blocks of the device below
   the one that went or came. Its host is asked by a port of x86-64 only. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host.h"

enum { MOST = 512, FRAMES = 32768, BLOCK_KIB = 131072, DEADLINE = 5, DWELL = 2 };

static struct {
    int number, online, movable_only, failures;
    double rests_until;
    long to_move, stuck;
} blocks[MOST];
static int count;
static uint64_t state = 0x1234567, words[FRAMES];
static const char *policy;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static uint64_t dice(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A line of /proc/meminfo. */
static long meminfo_kib(const char *format) {
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, format, &kib) != 1) {}
    if (file) fclose(file);
    return kib;
}

static long free_kib(void) { return meminfo_kib("MemFree: %ld"); }

static long total_kib(void) { return meminfo_kib("MemTotal: %ld"); }

static long reserve_kib(void) { return (long)count * BLOCK_KIB / 20; }

static int is_short(void) { return free_kib() < reserve_kib() * 3 / 4; }

static const char *path(int number, const char *name) {
    static char text[96];
    snprintf(text, sizeof text, "/sys/devices/system/memory/memory%d/%s", number, name);
    return text;
}

static const char *content(int number, const char *name) {
    static char text[64];
    int file = open(path(number, name), O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return text;
}

static int order(const void *one, const void *other) { return *(const int *)one - *(const int *)other; }

static void find_blocks(void) {
    DIR *folder = opendir("/sys/devices/system/memory");
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) && count < MOST)
        if (sscanf(entry->d_name, "memory%d", &blocks[count].number) == 1) count++;
    if (folder) closedir(folder);
    qsort(blocks, count, sizeof blocks[0], order);
}

static void look(void) {
    for (int block = 0; block < count; block++) {
        blocks[block].online = !strcmp(content(blocks[block].number, "state"), "online");
        blocks[block].movable_only = !strcmp(content(blocks[block].number, "valid_zones"), "Movable");
    }
}

/* The use of a block's frames: 8 bytes each; bits as in Documentation/admin-guide/mm/pagemap.rst. */
static void look_into(int block) {
    static const uint64_t FREE = 1 << 10, NO_PAGE = 1 << 20, SLAB = 1 << 7, TABLE = 1 << 26, OFFLINE = 1 << 23;
    static const uint64_t RESERVED = 1ULL << 32, MOVABLE = 1 << 5 | 1 << 11 | 1 << 12 | 1 << 3 | 1 << 16;
    static int file = -1;
    if (file < 0) file = open("/proc/kpageflags", O_RDONLY);
    ssize_t got = pread(file, words, sizeof words, (off_t)blocks[block].number * (off_t)sizeof words);
    blocks[block].to_move = blocks[block].stuck = 0;
    for (ssize_t frame = 0; frame < got / 8; frame++) {
        uint64_t flags = words[frame];
        if (flags & (FREE | NO_PAGE)) continue;
        if (!(flags & (SLAB | TABLE | OFFLINE | RESERVED)) && flags & MOVABLE) blocks[block].to_move++;
        else blocks[block].stuck++;
    }
}

static int write_state(int number, const char *word) {
    int file = open(path(number, "state"), O_WRONLY);
    int failed = file < 0 || write(file, word, strlen(word)) < 0 ? errno : 0;
    if (file >= 0) close(file);
    return failed;
}

/* Waits for a child; ends it after `seconds`, or if memory runs short meanwhile. Returns why it was ended, or NULL. */
static const char *wait_for(pid_t child, double seconds, int *status) {
    const char *why = NULL;
    double end = now() + seconds;
    while (waitpid(child, status, WNOHANG) == 0) {
        usleep(5000);
        if (why) continue;
        if (now() > end) why = "it was not empty in time";
        else if (is_short()) why = "the attempt was stopped";
        if (why) kill(child, SIGKILL);
    }
    return why;
}

static int went(int block) { return !strcmp(content(blocks[block].number, "state"), "offline"); }

static void note(int block, const char *why) {
    if (went(block)) {
        printf("block %d: from online to offline\n", blocks[block].number);
        blocks[block].failures = 0;
        return;
    }
    printf("block %d: stays in online, and does not go to offline: %s\n", blocks[block].number, why);
    blocks[block].rests_until = now() + (double)(1 << (blocks[block].failures < 10 ? blocks[block].failures : 10));
    blocks[block].failures++;
}

static void take_offline(int block) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(write_state(blocks[block].number, "offline"));
    const char *why = wait_for(child, DEADLINE, &status);
    note(block, why ? why : strerror(WEXITSTATUS(status)));
}

static int may_go(int block) {
    return blocks[block].online && blocks[block].rests_until <= now() &&
           strcmp(content(blocks[block].number, "valid_zones"), "none") &&
           (strcmp(policy, "movablecore") || blocks[block].movable_only);
}

static int chosen(void) {
    int best = -1, seen = 0;
    for (int block = 0; block < count; block++) {
        if (!may_go(block)) continue;
        if (!strcmp(policy, "random")) {
            if (dice() % (uint64_t)++seen == 0) best = block;
            continue;
        }
        look_into(block);
        if (blocks[block].stuck == 0 && (best < 0 || blocks[block].to_move <= blocks[best].to_move)) best = block;
    }
    return best;
}

/* chmem says which blocks stayed: "Memory Block 7 (0x...) disable failed". Which went, the blocks themselves say: a
   chmem that was ended may have said nothing. */
static int run_chmem(long wanted) {
    char size[32], line[256];
    int ends[2], status = 0, failures = 0, number;
    snprintf(size, sizeof size, "%ldM", wanted * BLOCK_KIB / 1024);
    if (pipe(ends)) return 1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execlp("chmem", "chmem", "-v", "-d", size, NULL);
        _exit(127);
    }
    close(ends[1]);
    const char *why = wait_for(child, (double)DEADLINE * (double)wanted, &status);
    FILE *said = fdopen(ends[0], "r");
    while (said && fgets(line, sizeof line, said)) {
        if (sscanf(line, "Memory Block %d", &number) != 1) continue;
        if (!strstr(line, "disable failed")) continue;
        failures++;
        printf("block %d: stays in online, and does not go to offline: %s", number, line);
    }
    if (said) fclose(said);
    for (int block = 0; block < count; block++)
        if (blocks[block].online && went(block)) printf("block %d: from online to offline\n", blocks[block].number);
    if (why) printf("block 0: stays in online, and does not go to offline: %s\n", why);
    return failures > 0 || why;
}

static void grow(void) {
    look();
    for (int block = count - 1; block >= 0; block--) {
        if (blocks[block].online) continue;
        if (write_state(blocks[block].number, strcmp(policy, "movablecore") ? "online" : "online_movable") == 0) {
            printf("block %d: from offline to online\n", blocks[block].number);
            return;
        }
    }
    usleep(50000);
}

/* virtio-mem: what the device had at first, and what is requested of it. */
static long lent_kib, requested_kib;

static long device_kib(void) {
    long long requested, actual;
    must(sscanf(ask_host("size"), "requested %lld actual %lld", &requested, &actual) == 2, "the device's size");
    return (long)(actual / 1024);
}

static void request(long kib) {
    char text[64];
    snprintf(text, sizeof text, "request %lld", (long long)kib * 1024);
    ask_host(text);
    requested_kib = kib;
}

/* How much the device has of its last block, which is whole unless an attempt has failed. */
static long last_kib(void) { return requested_kib % BLOCK_KIB ? requested_kib % BLOCK_KIB : BLOCK_KIB; }

/* Has the device shrink by its last block; returns whether it has not. */
static int shrink(void) {
    long has = requested_kib, wanted = has - last_kib();
    const char *why = NULL;
    double end = now() + DEADLINE;
    if (has == 0) {
        usleep(50000);
        return 0;
    }
    request(wanted);
    for (int looks = 1; has > wanted && !why; looks++) {
        usleep(5000);
        if (now() > end) why = "it was not empty in time";
        else if (is_short()) why = "the attempt was stopped";
        if (why || looks % 10 == 0) has = device_kib();
    }
    if (has <= wanted) {
        printf("block %ld: from online to offline\n", wanted / BLOCK_KIB);
        return 0;
    }
    printf("block %ld: stays in online, and does not go to offline: %s\n", wanted / BLOCK_KIB, why);
    request(has);
    return 1;
}

/* Has the device grow by what the reserve lacks, and waits until the kernel has that: 1 s at most. */
static void enlarge(void) {
    long before = requested_kib, total = total_kib();
    long wanted = (before + reserve_kib() - free_kib() + BLOCK_KIB - 1) / BLOCK_KIB * BLOCK_KIB;
    double end = now() + 1;
    if (wanted > lent_kib) wanted = lent_kib;
    if (wanted <= before) {
        usleep(50000);
        return;
    }
    request(wanted);
    while (total_kib() < total + wanted - before && now() < end) usleep(1000);
    for (long block = before / BLOCK_KIB; block < wanted / BLOCK_KIB; block++)
        printf("block %ld: from offline to online\n", block);
}

int main(int argument_count, char **arguments) {
    double idle_from = 0, rests_until = 0;
    int failures = 0, by_host;
    if (argument_count != 2) return 2;
    policy = arguments[1];
    by_host = !strcmp(policy, "virtio-mem");
    setvbuf(stdout, NULL, _IOLBF, 0);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    find_blocks();
    if (by_host) lent_kib = requested_kib = device_kib();
    sync();
    for (;;) {
        if (is_short()) {
            if (by_host) {
                enlarge();
                failures = 0;
                rests_until = 0;
            } else {
                grow();
            }
            idle_from = now() + DWELL;
            continue;
        }
        long spare = (free_kib() - reserve_kib()) / BLOCK_KIB;
        long least = by_host ? last_kib() : BLOCK_KIB;
        if (free_kib() < reserve_kib() + least || now() < idle_from || now() < rests_until) {
            usleep(50000);
            continue;
        }
        look();
        if (by_host || !strcmp(policy, "chmem")) {
            failures = (by_host ? shrink() : run_chmem(spare)) ? failures + 1 : 0;
            if (failures) rests_until = now() + (double)(1 << (failures < 11 ? failures - 1 : 10));
            continue;
        }
        int block = chosen();
        if (block >= 0) take_offline(block);
        else rests_until = now() + 1;
    }
}
