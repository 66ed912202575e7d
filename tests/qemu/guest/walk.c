/* walk: looks at every frame of online memory, and prints in one line, as NAME NUMBER, how many are

   free        on a free list of the kernel
   cpus        on the lists of the CPUs, as /proc/zoneinfo counts them
   poisoned    out of use as bad
   offline     marked as offline, as those of claims are
   kernel      used by the kernel without any flag that is shown
   lost        neither free nor poisoned or reserved, and without a reference, beside those on the lists of CPUs
   odd         free with a reference, or mapped without: nearly none, or this program misreads the kernel

   The kernel has frames that count as lost here: those after the first of a block that it has not marked as one, such
   as the second half of a program's top page table. So what tells is how `lost` grows.

   A frame's flags are in /proc/kpageflags. Its references are in `struct page`, read by /proc/kcore: 64 bytes for each
   frame from the start of the area that follows the one of vmalloc (Documentation/x86/x86_64/mm.rst). Memory is used
   while it is counted: of several counts, that is printed during which the lists of the CPUs changed least. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, CHUNK = 4096, TRIES = 5, MOST_HEADERS = 256 };

/* Of struct page, 6.1 to 6.12 on x86-64. */
enum { STRUCT_PAGE = 64, REFERENCES = 52 };

/* Of /proc/kpageflags. */
#define FREE (1ull << 10)
#define MAPPED (1ull << 11)
#define TAIL (1ull << 16)
#define POISONED (1ull << 19)
#define NO_PAGE (1ull << 20)
#define OFFLINE (1ull << 23)
#define RESERVED (1ull << 32)

struct counts {
    long frames, free, poisoned, offline, kernel, lost, odd;
};

static int core, all_flags;
static off_t pages; /* of /proc/kcore: the struct page of frame 0 */
static uint64_t flags[CHUNK];
static char structs[CHUNK * STRUCT_PAGE];
static char zones[1 << 18];

/* The kernel's areas are in this order, with an arbitrary start: all memory, vmalloc, struct page, ..., its text. */
static void find_pages(void) {
    static Elf64_Phdr headers[MOST_HEADERS];
    const uint64_t tebibyte = 1ull << 40, gibibyte = 1ull << 30, top = 0xffffff0000000000;
    Elf64_Ehdr file;
    const Elf64_Phdr *lowest = NULL;
    uint64_t vmalloc = 0;
    must(pread(core, &file, sizeof(file), 0) == sizeof(file) && file.e_phnum <= MOST_HEADERS, "kcore");
    ssize_t size = file.e_phnum * sizeof(*headers);
    must(pread(core, headers, size, file.e_phoff) == size, "headers of kcore");
    for (int i = 0; i < file.e_phnum; i++)
        if (headers[i].p_type == PT_LOAD && headers[i].p_memsz > tebibyte) vmalloc = headers[i].p_vaddr;
    must(vmalloc != 0, "the area of vmalloc");
    for (int i = 0; i < file.e_phnum; i++) {
        const Elf64_Phdr *header = &headers[i];
        if (header->p_type != PT_LOAD || header->p_vaddr <= vmalloc || header->p_vaddr >= top) continue;
        if (!lowest || header->p_vaddr < lowest->p_vaddr) lowest = header;
    }
    must(lowest != NULL, "the area of struct page");
    /* It begins at a multiple of 1 GiB, and the first memory is that of frame 0 or little after. */
    pages = lowest->p_offset - lowest->p_vaddr % gibibyte;
}

static int references(size_t i) {
    int count;
    memcpy(&count, structs + i * STRUCT_PAGE + REFERENCES, sizeof(count));
    return count;
}

static void count_frame(struct counts *counts, uint64_t seen, int references, int *is_block_used) {
    counts->frames++;
    if (!(seen & TAIL)) *is_block_used = references > 0;
    counts->poisoned += !!(seen & POISONED);
    counts->offline += !!(seen & OFFLINE);
    counts->free += !!(seen & FREE);
    counts->odd += (seen & FREE && references) || (seen & MAPPED && !*is_block_used);
    if (seen & (FREE | POISONED | RESERVED)) return;
    counts->kernel += seen == 0 && references > 0;
    counts->lost += !*is_block_used;
}

static struct counts count_all(void) {
    struct counts counts = {0};
    int is_block_used = 0;
    ssize_t got;
    for (off_t first = 0; (got = pread(all_flags, flags, sizeof(flags), first * 8)) > 0; first += CHUNK) {
        for (size_t i = 0; i < got / sizeof(*flags); i++) {
            /* Where there is no memory, there may be no struct page. */
            if (i % (PAGE / STRUCT_PAGE) == 0) {
                char *to = structs + i * STRUCT_PAGE;
                off_t from = pages + (first + i) * STRUCT_PAGE;
                if (pread(core, to, PAGE, from) != PAGE) memset(to, 0, PAGE);
            }
            if (!(flags[i] & NO_PAGE)) count_frame(&counts, flags[i], references(i), &is_block_used);
        }
    }
    return counts;
}

static long on_lists(void) {
    long sum = 0;
    int file = open("/proc/zoneinfo", O_RDONLY);
    ssize_t all = 0, some;
    must(file >= 0, "zoneinfo");
    while ((some = read(file, zones + all, sizeof(zones) - 1 - all)) > 0) all += some;
    zones[all] = 0;
    close(file);
    for (char *line = zones; (line = strstr(line, " count:")); line++) sum += atol(line + 7);
    return sum;
}

int main(void) {
    struct counts best = {0};
    long cpus = 0, least = -1;
    core = open("/proc/kcore", O_RDONLY);
    all_flags = open("/proc/kpageflags", O_RDONLY);
    must(core >= 0 && all_flags >= 0, "kcore and kpageflags");
    must(mlockall(MCL_CURRENT) == 0, "mlockall");
    find_pages();
    for (int try = 0; try < TRIES; try++) {
        long before = on_lists();
        struct counts counts = count_all();
        long after = on_lists(), change = labs(after - before);
        if (least >= 0 && change >= least) continue;
        least = change;
        cpus = (before + after) / 2;
        best = counts;
        best.lost -= cpus;
    }
    printf("frames %ld free %ld cpus %ld poisoned %ld offline %ld kernel %ld lost %ld odd %ld\n", best.frames, best.free,
        cpus, best.poisoned, best.offline, best.kernel, best.lost, best.odd);
    return 0;
}
