/* marked FREE USED PINNED: names frames that a test is to make bad, then waits.

   Has 48 MiB of memory and pins so many pages of others. Prints a line each of so many free frames, of so many frames
   of its memory, and of the pinned ones; the first two lie in blocks of 2 MiB that have no page of the kernel and none
   that is pinned, not more than 8 in a block.
   marked MIB: maps so much memory and prints all its frames, a line each, and ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, BLOCK = 512, OWN = 48 << 20, APART = 64, IN_BLOCK = 8 };

/* Of /proc/kpageflags: on the lists of what can be reclaimed, free (BUDDY), ANON, of memory files. */
#define LRU (1ull << 5)
#define FREE (1ull << 10)
#define ANON (1ull << 12)
#define SWAPBACKED (1ull << 14)

static int pagemap, flags_file;
static uint64_t pinned[256], pins, own[OWN / PAGE];

static uint64_t frame_of(const char *address) {
    uint64_t entry;
    must(pread(pagemap, &entry, 8, (uintptr_t)address / PAGE * 8) == 8 && entry >> 63, "pagemap");
    return entry & ((1ull << 55) - 1);
}

static char *memory_of(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED && madvise(memory, bytes, MADV_NOHUGEPAGE) == 0, "mmap");
    for (size_t at = 0; at < bytes; at += PAGE) memory[at] = 1;
    return memory;
}

static void pin(uint64_t count) {
    char *memory = memory_of(count * APART * PAGE);
    int ends[2];
    must(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 256 * PAGE) >= 0, "pipe");
    for (pins = 0; pins < count; pins++) {
        struct iovec page = {memory + pins * APART * PAGE, PAGE};
        must(vmsplice(ends[1], &page, 1, 0) == PAGE, "vmsplice");
        pinned[pins] = frame_of(page.iov_base);
    }
}

/* Whether a block may be emptied. */
static int is_movable(uint64_t block, const uint64_t *flags) {
    for (int i = 0; i < BLOCK; i++)
        if (!(flags[i] & (LRU | FREE | ANON | SWAPBACKED))) return 0;
    for (uint64_t i = 0; i < pins; i++)
        if (pinned[i] / BLOCK == block) return 0;
    return 1;
}

/* Whether a frame is one of the own memory. */
static int is_own(uint64_t frame) {
    for (uint64_t i = 0; i < OWN / PAGE; i++)
        if (own[i] == frame) return 1;
    return 0;
}

static int is_free(uint64_t frame) {
    uint64_t flags;
    must(pread(flags_file, &flags, 8, frame * 8) == 8, "kpageflags");
    return !!(flags & FREE);
}

static void name(const char *kind, int (*is)(uint64_t), uint64_t count) {
    uint64_t flags[BLOCK], named = 0;
    printf("%s", kind);
    for (uint64_t block = 8;
         named < count && pread(flags_file, flags, sizeof(flags), block * sizeof(flags)) == sizeof(flags); block++) {
        if (!is_movable(block, flags)) continue;
        for (int i = 0, in_block = 0; i < IN_BLOCK * 4 && in_block < IN_BLOCK && named < count; i++) {
            uint64_t frame = block * BLOCK + (i * 131 + 7) % BLOCK;
            if (!is(frame)) continue;
            printf(" %lu", frame);
            in_block++;
            named++;
        }
    }
    printf("\n");
    must(named == count, kind);
}

int main(int count, char **arguments) {
    pagemap = open("/proc/self/pagemap", O_RDONLY);
    flags_file = open("/proc/kpageflags", O_RDONLY);
    must(pagemap >= 0 && flags_file >= 0, "open");
    if (count == 2) {
        size_t bytes = strtoull(arguments[1], NULL, 10) << 20;
        char *memory = memory_of(bytes);
        for (size_t at = 0; at < bytes; at += PAGE) printf("%lu\n", frame_of(memory + at));
        return 0;
    }
    must(count == 4, "marked FREE USED PINNED");
    char *memory = memory_of(OWN);
    for (size_t i = 0; i < OWN / PAGE; i++) own[i] = frame_of(memory + i * PAGE);
    pin(strtoull(arguments[3], NULL, 10));
    name("free", is_free, strtoull(arguments[1], NULL, 10));
    name("used", is_own, strtoull(arguments[2], NULL, 10));
    printf("pinned");
    for (uint64_t i = 0; i < pins; i++) printf(" %lu", pinned[i]);
    printf("\n");
    fflush(stdout);
    for (;;) pause();
}
