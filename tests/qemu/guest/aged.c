/* aged PID SECONDS: how old the last tests of a process's memory are, by the kernel module's table.

   Prints: pages that are present; of these, pages whose frame was never tested, or was tested longer ago than that many
   seconds ("late"); of the late ones, those in a block of 2 MiB with a page that is the kernel's (a slab, a page table,
   or one without a flag, which may also be free on the list of a CPU), and those in no such block; and the age of the
   oldest test of a page in no such block. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "must.h"
#include "rampart_abi.h"

enum { PAGE = 4096, BLOCK = 512 };

/* Of /proc/kpageflags: SLAB, on the lists of what can be reclaimed, free (BUDDY), ANON, of memory files, no memory,
   PGTABLE. */
#define SLAB (1ull << 7)
#define LRU (1ull << 5)
#define FREE (1ull << 10)
#define ANON (1ull << 12)
#define SWAPBACKED (1ull << 14)
#define NO_PAGE (1ull << 20)
#define PGTABLE (1ull << 26)

static int flags_file, ages_file;

static int has_kernel_page(uint64_t block) {
    uint64_t flags[BLOCK];
    must(pread(flags_file, flags, sizeof(flags), block * sizeof(flags)) == sizeof(flags), "kpageflags");
    for (int i = 0; i < BLOCK; i++)
        if (!(flags[i] & (LRU | FREE | ANON | SWAPBACKED)) || flags[i] & (SLAB | PGTABLE | NO_PAGE)) return 1;
    return 0;
}

int main(int count, char **arguments) {
    must(count == 3, "aged PID SECONDS");
    char path[64], line[512];
    uint64_t most = strtoull(arguments[2], NULL, 10), pages = 0, late = 0, beside = 0, oldest = 0;
    snprintf(path, sizeof(path), "/proc/%s/pagemap", arguments[1]);
    int pagemap = open(path, O_RDONLY);
    snprintf(path, sizeof(path), "/proc/%s/maps", arguments[1]);
    FILE *maps = fopen(path, "r");
    flags_file = open("/proc/kpageflags", O_RDONLY);
    ages_file = open("/sys/kernel/rampart/ages", O_RDONLY);
    must(pagemap >= 0 && maps != NULL && flags_file >= 0 && ages_file >= 0, "open");
    while (fgets(line, sizeof(line), maps)) {
        uint64_t address, end, entry;
        if (strstr(line, "[v") || sscanf(line, "%lx-%lx", &address, &end) != 2) continue;
        for (; address < end; address += PAGE) {
            if (pread(pagemap, &entry, 8, address / PAGE * 8) != 8 || !(entry >> 63)) continue;
            uint64_t frame = entry & ((1ull << 55) - 1);
            uint32_t age = 0;
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            must(frame != 0 && pread(ages_file, &age, 4, frame * 4) == 4, "ages");
            age &= RAMPART_AGE_TESTED;
            uint64_t seconds = age == 0 ? UINT32_MAX : (uint64_t)now.tv_sec + 1 - age;
            int kernel = has_kernel_page(frame / BLOCK);
            pages++;
            late += seconds > most;
            beside += seconds > most && kernel;
            if (!kernel && seconds > oldest) oldest = seconds;
        }
    }
    printf("pages %lu late %lu beside %lu apart %lu oldest %lu\n", pages, late, beside, late - beside, oldest);
    return 0;
}
