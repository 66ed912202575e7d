/* drained FILE: writes /proc/kpageflags to a file, as it is when no CPU has free frames on its own lists. To
   /proc/kpageflags, frames on such a list look like the kernel's memory. The kernel empties these lists before it takes
   a block offline, so this tries every block that has memory which cannot move; no such try succeeds. Everything is in
   memory before, as each new page would fill a list again. Prints how many tries got so far as to empty the lists, and
   how many frames are on the lists afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, MOST_FRAMES = 8 << 18, MOST_BLOCKS = 256 };

/* Slab, page table, reserved at boot: the kernel cannot move these. */
#define UNMOVABLE (1ull << 7 | 1ull << 26 | 1ull << 32)

static uint64_t flags[MOST_FRAMES];
static char zones[1 << 20];
static int states[MOST_BLOCKS];

static ssize_t read_all(const char *path, void *to, size_t size) {
    int file = open(path, O_RDONLY);
    must(file >= 0, path);
    ssize_t all = 0, some;
    while ((size_t)all < size && (some = read(file, (char *)to + all, size - all)) > 0) all += some;
    close(file);
    return all;
}

/* The frames of a block. */
static size_t block_frames(void) {
    char text[32] = "";
    read_all("/sys/devices/system/memory/block_size_bytes", text, sizeof text - 1);
    return strtoull(text, NULL, 16) / PAGE;
}

/* Opens the states of the blocks with memory that cannot move; the others' are -1. */
static void open_states(size_t frames) {
    size_t size = block_frames();
    for (size_t block = 0; block < MOST_BLOCKS; block++) {
        char path[64];
        int unmovable = 0;
        for (size_t frame = block * size; frame < (block + 1) * size && frame < frames; frame++)
            unmovable |= (flags[frame] & UNMOVABLE) != 0;
        snprintf(path, sizeof path, "/sys/devices/system/memory/memory%zu/state", block);
        states[block] = unmovable ? open(path, O_WRONLY) : -1;
    }
}

/* Empties the lists of all zones; returns how many tries did. */
static int drain(void) {
    int drained = 0;
    for (int block = 0; block < MOST_BLOCKS; block++) {
        if (states[block] < 0) continue;
        must(write(states[block], "offline", 7) < 0, "a block with memory that cannot move went offline");
        drained += errno == EBUSY;
    }
    return drained;
}

/* The frames on the lists of CPUs: the counts of the page sets. */
static long on_lists(void) {
    long sum = 0;
    for (char *line = zones; (line = strstr(line, " count:")); line++) sum += atol(line + 7);
    return sum;
}

int main(int count, char **arguments) {
    must(count == 2, "drained FILE");
    int file = open(arguments[1], O_CREAT | O_TRUNC | O_WRONLY, 0600);
    must(file >= 0, arguments[1]);
    ssize_t size = read_all("/proc/kpageflags", flags, sizeof flags);
    open_states(size / sizeof *flags);
    read_all("/proc/zoneinfo", zones, sizeof zones - 1);
    long before = on_lists();
    /* What the kernel still needs for the lines that it logs comes before the last try. */
    must(mlockall(MCL_CURRENT) == 0, "mlockall");
    drain();
    int drained = drain();
    size = read_all("/proc/kpageflags", flags, size);
    memset(zones, 0, sizeof zones);
    read_all("/proc/zoneinfo", zones, sizeof zones - 1);
    must(write(file, flags, size) == size, "write");
    printf("lists of CPUs: %d drains, %ld frames before, %ld after\n", drained, before, on_lists());
    return drained == 0;
}
