/* window CASE [NUMBER...]: what an owner of Rampart's device can do with frames, one case a run; fails with one line if
   the device does otherwise.

   free | move           claims memory block after block (2 MiB) and tests it: what is free, or all that there is;
                         prints how many frames or blocks it had
   programs PID          does what `move` does with each block in which the process has a page now; prints how many such
                         blocks there are, how many hold nothing but free pages and those of programs and files, how
                         many of these it had, how many were refused for want of memory, and how many of the others
                         it had
   beside                tests, one by one, pages of programs and files in blocks with a page that cannot be moved;
                         prints how many there were, how many it had, and how often memory was short
   listed                tests what `free` does, then each of the kernel's free lists, one after the other; prints too
                         how many frames of lists it had, and how many at once
   lists COUNT           takes the first block of a list, and gives it back, so many times; prints how many it had
   coverage              prints how many frames are free, and how many of them were ever tested
   at-hand               tests what is at hand for CPUs, and prints how many frames it had
   held                  prints how many frames are held by claims, as the table of ages has it
   hold COUNT [BLOCK]    claims free frames in a row, in a memory block (128 MiB) if one is named, prints the first,
                         and waits; so does `leak`, after it has left its descriptor to a child, which it prints
   retire COUNT          claims free frames, gives them back as bad, and prints what came of it and the first
   unlist                claims a block of a list, gives its second frame back as bad, and prints it
   age FRAME             prints the entry of a frame in the table of ages
   user COUNT            uses so many pages, prints a frame of each block of 2 MiB in which all can be moved, and waits

   The other cases need no numbers; all are in CASES, at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"
#include "rampart_abi.h"

enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t), BLOCK = 512, MEMORY_BLOCK = 1 << 15, NODES = 2, ORDERS = 9 };

/* Of /proc/kpageflags: on the lists of what can be reclaimed, free (BUDDY), mapped, no memory, and OFFLINE. */
#define LRU (1ull << 5)
#define FREE (1ull << 10)
#define MAPPED (1ull << 11)
#define NO_PAGE (1ull << 20)
#define OFFLINE (1ull << 23)

static int device = -1;
static uint64_t words[2];
static int count;

static void open_device(void) {
    device = open("/dev/rampart", O_RDWR | O_CLOEXEC);
    must(device >= 0, "open");
}

static struct rampart_claim claim_of(uint64_t first, uint32_t frames, uint32_t how) {
    struct rampart_claim claim = {.first = first, .frames = frames, .how = how};
    return claim;
}

/* Claims; the error, or 0. */
static int claims(struct rampart_claim *claim) { return ioctl(device, RAMPART_CLAIM, claim) == 0 ? 0 : errno; }

static int gives_back(const struct rampart_claim *claim, uint32_t flags) {
    struct rampart_give_back verdict = {.first = claim->first, .claim = claim->claim, .flags = flags};
    return ioctl(device, RAMPART_GIVE_BACK, &verdict) == 0 ? 0 : errno;
}

static volatile uint64_t *window(uint64_t first, uint64_t frames) {
    void *memory = mmap(NULL, frames * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, device, first * PAGE);
    must(memory != MAP_FAILED, "mmap of the window");
    return memory;
}

static void read_flags(uint64_t first, uint64_t *flags, size_t count) {
    static int file = -1;
    if (file < 0) file = open("/proc/kpageflags", O_RDONLY);
    ssize_t got = pread(file, flags, count * sizeof(*flags), first * sizeof(*flags));
    must(got >= 0, "kpageflags");
    for (size_t i = got / sizeof(*flags); i < count; i++) flags[i] = NO_PAGE;
}

/* The frames of this machine are below it. */
static uint64_t frames_end(void) {
    FILE *table = fopen("/proc/iomem", "r");
    uint64_t end = 0;
    char line[256];
    must(table != NULL, "iomem");
    while (fgets(line, sizeof(line), table)) {
        unsigned long first, last;
        if (strstr(line, "System RAM") && sscanf(line, "%lx-%lx", &first, &last) == 2) end = (last + 1) / PAGE;
    }
    fclose(table);
    return end;
}

/* Claims free frames in a row, the last ones that it can have below `end`. */
static struct rampart_claim claim_free(uint64_t end, uint32_t frames) {
    uint64_t flags[BLOCK], row = 0;
    for (uint64_t block = end / BLOCK * BLOCK; block; ) {
        block -= BLOCK;
        read_flags(block, flags, BLOCK);
        uint32_t free = 0;
        while (free < BLOCK && flags[free] & FREE) free++;
        row = free == BLOCK ? row + BLOCK : 0;
        if (row < (frames + BLOCK - 1) / BLOCK * BLOCK) continue;
        struct rampart_claim claim = {.first = block, .frames = frames, .how = RAMPART_CLAIM_FREE};
        if (!claims(&claim)) return claim;
        row = 0;
    }
    must(0, "no free frames can be claimed");
    abort();
}

/* A claim of free frames, and a view of it. */
static volatile uint64_t *claim_some(struct rampart_claim *claim, uint32_t frames) {
    *claim = claim_free(frames_end(), frames);
    return window(claim->first, frames);
}

/* The same frames once more. */
static void claim_again(struct rampart_claim *claim) {
    int error;
    do error = claims(claim);
    while (error == EBUSY);
    must(error == 0, "CLAIM");
}

/* The frames must be empty, and keep what is written. */
static void test(volatile uint64_t *memory, uint64_t frames) {
    for (uint64_t at = 0; at < frames * WORDS; at += 64) must(memory[at] == 0, "a claimed frame has old content");
    for (uint64_t at = 0; at < frames * WORDS; at++) memory[at] = at * 0x9e3779b97f4a7c15;
    for (uint64_t at = 0; at < frames * WORDS; at++) must(memory[at] == at * 0x9e3779b97f4a7c15, "a frame forgets");
}

/* How many claims of `test_frames` were refused for want of memory. */
static uint64_t refused_short;

/* Claims, tests and gives back; whether it had the frames. */
static int test_frames(uint64_t first, uint32_t frames, uint32_t how) {
    struct rampart_claim claim = claim_of(first, frames, how);
    int refusal = claims(&claim);
    if (refusal) {
        refused_short += refusal == ENOMEM;
        return 0;
    }
    volatile uint64_t *memory = window(first, frames);
    test(memory, frames);
    must(munmap((void *)memory, frames * PAGE) == 0, "munmap");
    int error = gives_back(&claim, RAMPART_TESTED);
    must(error == 0 || error == ESTALE, "GIVE_BACK");
    return error == 0;
}

static void test_ranges(void) {
    uint64_t tested = 0, refused = 0, flags[BLOCK];
    for (uint64_t block = 0; block < frames_end(); block += BLOCK) {
        read_flags(block, flags, BLOCK);
        for (uint32_t from = 0, to; from < BLOCK; from = to) {
            for (to = from; to < BLOCK && flags[to] & FREE;) to++;
            if (to == from) to++;
            else if (test_frames(block + from, to - from, RAMPART_CLAIM_FREE)) tested += to - from;
            else refused += to - from;
        }
    }
    printf("tested %lu refused %lu", tested, refused);
}

static void test_free(void) {
    open_device();
    test_ranges();
    puts("");
}

static struct rampart_listed list_of(uint32_t node, uint32_t zone, uint32_t type, uint32_t order) {
    struct rampart_listed list = {.node = node, .zone = zone, .migratetype = type, .order = order};
    return list;
}

/* Claims the first block of a list; the error, or 0. */
static int lists(struct rampart_listed *list) { return ioctl(device, RAMPART_CLAIM_LISTED, list) == 0 ? 0 : errno; }

static int unlists(const struct rampart_listed *list, uint32_t flags) {
    struct rampart_claim claim = {.first = list->first, .claim = list->claim};
    return gives_back(&claim, flags);
}

/* Holds what it gets until the list is empty: a block that goes back is the first again. Returns how many frames. */
static uint64_t test_list(struct rampart_listed list) {
    struct rampart_listed *had = NULL;
    size_t number = 0;
    int error;
    while ((error = lists(&list)) == 0) {
        had = realloc(had, (number + 1) * sizeof(*had));
        must(had != NULL, "realloc");
        had[number++] = list;
        volatile uint64_t *memory = window(list.first, list.frames);
        test(memory, list.frames);
        must(munmap((void *)memory, list.frames * PAGE) == 0, "munmap");
        must(ioctl(device, RAMPART_RENEW) == 0, "RENEW");
    }
    must(error == ENOENT || error == ENXIO || error == ENOMEM, "CLAIM_LISTED");
    for (size_t i = 0; i < number; i++) must(unlists(&had[i], RAMPART_TESTED) == 0, "GIVE_BACK of a listed block");
    free(had);
    return number << list.order;
}

static void test_listed(void) {
    uint64_t all = 0, most = 0;
    open_device();
    test_ranges();
    /* By node, zone, migratetype and order, the largest blocks first. */
    for (uint32_t list = 0; list < NODES * 3 * 3 * ORDERS; list++) {
        uint32_t group = list / ORDERS, order = ORDERS - 1 - list % ORDERS;
        uint64_t had = test_list(list_of(group / 9, group / 3 % 3, group % 3, order));
        all += had;
        if (had > most) most = had;
    }
    printf(" listed %lu most %lu\n", all, most);
}

/* For a claim of a range the kernel empties the CPUs' lists, which have the pieces of what was given back. */
static void empty_cpu_lists(void) {
    struct rampart_claim claim = claim_free(frames_end(), 1);
    must(gives_back(&claim, 0) == 0, "GIVE_BACK");
}

/* Claims a block of two frames or more of a list, of the kernel's own pageblocks if there is. */
static struct rampart_listed claim_listed(void) {
    static const uint32_t types[] = {RAMPART_TYPE_UNMOVABLE, RAMPART_TYPE_RECLAIMABLE, RAMPART_TYPE_MOVABLE};
    for (int turn = 0; turn < 2; turn++, empty_cpu_lists()) {
        for (size_t type = 0; type < sizeof(types) / sizeof(*types); type++) {
            for (uint32_t order = 1; order < ORDERS; order++) {
                struct rampart_listed list = list_of(0, RAMPART_ZONE_DMA32, types[type], order);
                if (!lists(&list)) return list;
            }
        }
    }
    must(0, "no block of a list can be claimed");
    abort();
}

static void relist(void) {
    uint64_t had = 0;
    open_device();
    for (uint64_t turn = 0; turn < words[0]; turn++) {
        struct rampart_listed list = claim_listed();
        had += list.frames;
        must(unlists(&list, 0) == 0, "GIVE_BACK");
    }
    printf("%lu\n", had);
}

static void test_all(void) {
    uint64_t blocks = 0, moved = 0;
    open_device();
    for (uint64_t block = 0; block < frames_end(); block += BLOCK, blocks++)
        moved += test_frames(block, BLOCK, RAMPART_CLAIM_MOVE);
    printf("blocks %lu moved %lu\n", blocks, moved);
}

static uint32_t age(uint64_t frame) {
    uint32_t entry;
    int file = open("/sys/kernel/rampart/ages", O_RDONLY);
    must(pread(file, &entry, sizeof(entry), frame * sizeof(entry)) == sizeof(entry), "ages");
    close(file);
    return entry;
}

static void print_age(void) {
    uint32_t entry = age(words[0]), tested = entry & RAMPART_AGE_TESTED;
    printf("%s%s%s\n", tested == 0 ? "never" : tested == RAMPART_AGE_BAD ? "bad" : "tested",
        entry & RAMPART_AGE_HELD ? " held" : "", entry & RAMPART_AGE_FREED ? " freed" : "");
}

static void coverage(void) {
    uint64_t free = 0, tested = 0, flags[BLOCK];
    uint32_t ages[BLOCK];
    int file = open("/sys/kernel/rampart/ages", O_RDONLY);
    for (uint64_t block = 0; block < frames_end(); block += BLOCK) {
        read_flags(block, flags, BLOCK);
        memset(ages, 0, sizeof(ages));
        must(pread(file, ages, sizeof(ages), block * sizeof(*ages)) >= 0, "ages");
        for (int i = 0; i < BLOCK; i++) {
            free += !!(flags[i] & FREE);
            tested += flags[i] & FREE && ages[i] & RAMPART_AGE_TESTED;
        }
    }
    printf("%lu %lu\n", free, tested);
}

/* What is at hand for CPUs has no valid test at first. Each frame is handed out once: then its test is young. */
static void at_hand(void) {
    uint64_t frames = 0;
    open_device();
    for (;; frames++) {
        struct rampart_listed list = list_of(0, RAMPART_ZONE_DMA32, RAMPART_TYPE_MOVABLE, 0);
        list.older = 3600;
        int refusal = lists(&list);
        if (refusal) {
            must(refusal == ENOENT, "no block is at hand");
            break;
        }
        must(list.frames == 1 && !(age(list.first) & RAMPART_AGE_TESTED), "a frame at hand without a test");
        must(!(age(list.first) & RAMPART_AGE_FREE), "a claimed frame is not free");
        must(unlists(&list, RAMPART_TESTED) == 0, "GIVE_BACK");
        must(frames < 100000, "it ends");
    }
    printf("%lu\n", frames);
}

static void print_held(void) {
    uint64_t held = 0;
    uint32_t ages[BLOCK];
    int file = open("/sys/kernel/rampart/ages", O_RDONLY);
    for (uint64_t block = 0; block < frames_end(); block += BLOCK) {
        memset(ages, 0, sizeof(ages));
        must(pread(file, ages, sizeof(ages), block * sizeof(*ages)) >= 0, "ages");
        for (int i = 0; i < BLOCK; i++) held += !!(ages[i] & RAMPART_AGE_HELD);
    }
    printf("%lu\n", held);
}

static void wait_for_ever(const char *line) {
    must(puts(line) >= 0 && fflush(stdout) == 0, "puts");
    for (;;) pause();
}

/* A claim of as many frames as were asked for, where it was asked for. */
static uint64_t claim_asked(void) {
    uint64_t end = count > 1 ? (words[1] + 1) * MEMORY_BLOCK : frames_end();
    struct rampart_claim claim = claim_free(end, words[0]);
    window(claim.first, claim.frames)[0] = 1;
    return claim.first;
}

static void hold(void) {
    char line[64];
    open_device();
    snprintf(line, sizeof(line), "%lu", claim_asked());
    wait_for_ever(line);
}

static void leak(void) {
    char line[64];
    device = open("/dev/rampart", O_RDWR);
    must(device >= 0, "open");
    claim_asked();
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    snprintf(line, sizeof(line), "%d", child);
    wait_for_ever(line);
}

static void retire(void) {
    uint64_t *bad = calloc(words[0], sizeof(*bad));
    open_device();
    struct rampart_claim claim = claim_free(frames_end(), words[0]);
    for (uint64_t i = 0; i < words[0]; i++) bad[i] = claim.first + i;
    struct rampart_give_back verdict = {.first = claim.first, .claim = claim.claim, .bad = (uintptr_t)bad,
        .bad_frames = words[0], .flags = RAMPART_TESTED};
    int refused = ioctl(device, RAMPART_GIVE_BACK, &verdict);
    printf("%s %llu\n", refused ? strerrorname_np(errno) : "retired", (unsigned long long)claim.first);
}

static void unlist(void) {
    open_device();
    struct rampart_listed list = claim_listed();
    uint64_t bad = list.first + 1;
    struct rampart_give_back verdict = {.first = list.first, .claim = list.claim, .bad = (uintptr_t)&bad,
        .bad_frames = 1, .flags = RAMPART_TESTED};
    must(ioctl(device, RAMPART_GIVE_BACK, &verdict) == 0, "GIVE_BACK");
    printf("%lu\n", bad);
}

/* Whether all frames of a block are free, or memory of programs or files. */
static int can_be_moved(uint64_t block) {
    uint64_t flags[BLOCK];
    read_flags(block, flags, BLOCK);
    for (int i = 0; i < BLOCK; i++)
        if (!(flags[i] & (FREE | LRU | MAPPED))) return 0;
    return 1;
}

static void test_beside(void) {
    uint64_t pages = 0, had = 0, flags[BLOCK];
    open_device();
    for (uint64_t block = 0; block < frames_end(); block += BLOCK) {
        if (can_be_moved(block)) continue;
        read_flags(block, flags, BLOCK);
        for (uint64_t frame = block; frame < block + BLOCK; frame++) {
            if (!(flags[frame - block] & LRU)) continue;
            pages++;
            had += test_frames(frame, 1, RAMPART_CLAIM_MOVE);
        }
    }
    printf("pages %lu had %lu short %lu\n", pages, had, refused_short);
}

/* Marks the blocks in which a process has a page. */
static void mark_blocks_of(uint64_t process, char *is_used) {
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%lu/pagemap", process);
    int pagemap = open(path, O_RDONLY);
    snprintf(path, sizeof(path), "/proc/%lu/maps", process);
    FILE *maps = fopen(path, "r");
    must(pagemap >= 0 && maps != NULL, "the process");
    while (fgets(line, sizeof(line), maps)) {
        uint64_t address, end, entry;
        if (strstr(line, "[v") || sscanf(line, "%lx-%lx", &address, &end) != 2) continue;
        for (; address < end; address += PAGE)
            if (pread(pagemap, &entry, sizeof(entry), address / PAGE * sizeof(entry)) == sizeof(entry) && entry >> 63)
                is_used[(entry & ((1ull << 55) - 1)) / BLOCK] = 1;
    }
    fclose(maps);
    close(pagemap);
}

static void test_programs(void) {
    uint64_t blocks = 0, movable = 0, moved = 0, others_moved = 0;
    char *is_used = calloc(frames_end() / BLOCK + 1, 1);
    must(is_used != NULL, "calloc");
    open_device();
    empty_cpu_lists();
    mark_blocks_of(words[0], is_used);
    for (uint64_t block = 0; block < frames_end(); block += BLOCK) {
        if (!is_used[block / BLOCK]) continue;
        int can = can_be_moved(block), had = test_frames(block, BLOCK, RAMPART_CLAIM_MOVE);
        blocks++;
        movable += can;
        moved += can && had;
        others_moved += !can && had;
    }
    printf("blocks %lu movable %lu moved %lu short %lu others %lu\n", blocks, movable, moved, refused_short,
        others_moved);
}

static void user(void) {
    char *memory = mmap(NULL, words[0] * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entry, last = 0;
    must(memory != MAP_FAILED && pagemap >= 0, "mmap");
    must(madvise(memory, words[0] * PAGE, MADV_NOHUGEPAGE) == 0, "madvise");
    for (uint64_t page = 0; page < words[0]; page++) memory[page * PAGE] = 1;
    for (uint64_t page = 0; page < words[0]; page++) {
        off_t at = ((uintptr_t)memory / PAGE + page) * sizeof(entry);
        must(pread(pagemap, &entry, sizeof(entry), at) == sizeof(entry), "pagemap");
        entry &= (1ull << 55) - 1;
        if (entry / BLOCK != last && can_be_moved(entry / BLOCK * BLOCK)) printf("%lu ", entry);
        last = entry / BLOCK;
    }
    wait_for_ever("");
}

static sigjmp_buf touched;

static void see_signal(int number) { siglongjmp(touched, number); }

/* The signal that a touch of this address causes, or 0. */
static int signal_of(volatile uint64_t *address) {
    struct sigaction action = {.sa_handler = see_signal, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    int number = sigsetjmp(touched, 1);
    if (number == 0) *address = 1;
    return number;
}

static void neighbours(void) {
    struct rampart_claim claim;
    open_device();
    claim_some(&claim, 8);
    volatile uint64_t *wide = window(claim.first - 4, 16);
    for (int page = 0; page < 16; page++)
        must(signal_of(wide + page * WORDS) == (page >= 4 && page < 12 ? 0 : SIGBUS), "a touch beside the claim");
    must(gives_back(&claim, 0) == 0, "GIVE_BACK");
    for (int page = 0; page < 16; page++) must(signal_of(wide + page * WORDS) == SIGBUS, "a late touch");
}

static void late(void) {
    struct rampart_claim claim, next;
    open_device();
    volatile uint64_t *memory = claim_some(&claim, 8), *again = window(claim.first, 8);
    memory[0] = 1;
    must(again[0] == 1, "a second window shows other memory");
    must(gives_back(&claim, RAMPART_TESTED) == 0, "GIVE_BACK");
    must(signal_of(memory) == SIGBUS && signal_of(again) == SIGBUS, "a late touch");
    must(gives_back(&claim, RAMPART_TESTED) == ESTALE, "a second verdict");
    next = claim;
    /* This program may have got one of the frames meanwhile. */
    next.how = RAMPART_CLAIM_MOVE;
    claim_again(&next);
    must(next.claim > claim.claim, "numbers of claims rise");
    must(gives_back(&claim, RAMPART_TESTED) == ESTALE, "a verdict on an older claim");
    must(signal_of(memory) == SIGBUS && signal_of(again) == SIGBUS, "an old window shows a new claim");
    must(window(next.first, 8)[0] == 0, "a new window shows it, empty");
    claim.claim = next.claim;
    claim.first++;
    must(gives_back(&claim, RAMPART_TESTED) == ESTALE, "a verdict from the middle of a claim");
}

static void refusals(void) {
    struct rampart_claim claim, other;
    open_device();
    claim_some(&claim, 8);
    uint64_t first = claim.first;
    const struct rampart_claim wrong[] = {claim_of(first, 0, 0), claim_of(first, RAMPART_CLAIM_MOST + 1, 0),
        claim_of(first, 1, 2), claim_of(UINT64_MAX, 8, 0), claim_of(UINT64_MAX / PAGE, 8, 0),
        {.first = first, .frames = 1, .zero = 1}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        other = wrong[i];
        must(claims(&other) == EINVAL, "a claim that makes no sense");
    }
    other = claim_of(frames_end() + (1 << 20), 8, 1);
    must(claims(&other) == ENXIO, "a claim of what is no memory");
    other = claim_of(0, 8, 1);
    must(claims(&other) == ENXIO, "a claim of what the firmware has");
    other = claim_of(first + 4, 8, RAMPART_CLAIM_FREE);
    must(claims(&other) == EBUSY && other.in_use == 4, "a claim of what is claimed");
    other = claim_of(first + 4, 8, RAMPART_CLAIM_MOVE);
    must(claims(&other) == EBUSY, "a claim of what is claimed, by moving it");
    must(gives_back(&claim, 4) == EINVAL, "a verdict with an unknown flag");
    uint64_t bad = first + 8;
    struct rampart_give_back verdict = {.first = first, .claim = claim.claim, .bad = (uintptr_t)&bad, .bad_frames = 1};
    must(ioctl(device, RAMPART_GIVE_BACK, &verdict) == -1 && errno == EINVAL, "a bad frame behind the claim");
    bad = first - 1;
    must(ioctl(device, RAMPART_GIVE_BACK, &verdict) == -1 && errno == EINVAL, "a bad frame before the claim");
    verdict.bad = 8;
    must(ioctl(device, RAMPART_GIVE_BACK, &verdict) == -1 && errno == EFAULT, "a list that is not there");
    verdict.bad_frames = RAMPART_CLAIM_MOST + 1;
    must(ioctl(device, RAMPART_GIVE_BACK, &verdict) == -1 && errno == EINVAL, "a list that is too long");
    must(gives_back(&claim, 0) == 0, "after all that the claim is there");
    must(ioctl(device, RAMPART_CLAIM, NULL) == -1 && errno == EFAULT, "a claim from nowhere");
    must(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, device, first * PAGE) == MAP_FAILED, "a private window");
    must(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, device, first * PAGE) == MAP_FAILED, "code in the window");
    struct rampart_lifetime lifetime = {10, 10};
    must(ioctl(device, RAMPART_SET_LIFETIME, &lifetime) == -1 && errno == EINVAL, "a margin as long as the lifetime");
}

/* What else could make a frame outlive its claim. */
static void aliases(void) {
    struct rampart_claim claim;
    int ends[2];
    open_device();
    volatile uint64_t *memory = claim_some(&claim, 8);
    memory[0] = 1;
    must(madvise((void *)memory, PAGE, MADV_DOFORK) == -1, "the window goes to children");
    must(madvise((void *)memory, PAGE, MADV_DODUMP) == -1, "the window is dumped");
    must(mremap((void *)memory, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED, "the window grows");
    must(pipe(ends) == 0, "pipe");
    struct iovec part = {(void *)memory, PAGE};
    must(vmsplice(ends[1], &part, 1, 0) == -1 && errno == EFAULT, "a frame is pinned by a pipe");
    int image = open("/proc/self/mem", O_RDONLY);
    uint64_t word;
    must(pread(image, &word, sizeof(word), (off_t)(uintptr_t)memory) == -1 && errno == EIO, "a frame is read by others");
    volatile uint64_t *moved = mremap((void *)memory, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
        (char *)memory + (1ul << 30));
    must(moved != MAP_FAILED && moved[0] == 1, "a window that was moved");
    must(gives_back(&claim, 0) == 0, "GIVE_BACK");
    must(signal_of(moved) == SIGBUS, "a late touch of a window that was moved");
}

static void forked(void) {
    struct rampart_claim claim;
    open_device();
    volatile uint64_t *memory = claim_some(&claim, 8);
    memory[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        must(signal_of(memory) == SIGSEGV, "a child sees the window");
        must(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, device, claim.first * PAGE) == MAP_FAILED && errno == EPERM,
            "a child opens a window");
        must(gives_back(&claim, 0) == EPERM, "a child gives a claim back");
        struct rampart_claim other = claim_of(claim.first + 8, 8, RAMPART_CLAIM_FREE);
        must(claims(&other) == EPERM, "a child claims");
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0, "child");
    must(memory[0] == 1 && gives_back(&claim, 0) == 0, "the owner goes on");
}

static void ages(void) {
    struct rampart_claim claim;
    open_device();
    claim_some(&claim, 8);
    uint64_t first = claim.first;
    must(age(first) & RAMPART_AGE_HELD && age(first + 7) & RAMPART_AGE_HELD, "a claimed frame is not held");
    must(!(age(first + 8) & RAMPART_AGE_HELD), "a frame beside the claim is held");
    must(gives_back(&claim, RAMPART_TESTED) == 0, "GIVE_BACK");
    uint32_t tested = age(first);
    must(tested & RAMPART_AGE_TESTED && !(tested & RAMPART_AGE_HELD), "a tested frame");
    sleep(2);
    claim_again(&claim);
    must(gives_back(&claim, 0) == 0, "GIVE_BACK");
    must((age(first) & RAMPART_AGE_TESTED) == (tested & RAMPART_AGE_TESTED), "a claim without a test changed an age");
    claim_again(&claim);
    must(gives_back(&claim, RAMPART_TESTED) == 0, "GIVE_BACK");
    must((age(first) & RAMPART_AGE_TESTED) >= (tested & RAMPART_AGE_TESTED) + 2, "a later test is not later");
}

/* Refusals, and the life of a claim whose frames the kernel chose. */
static void from_list(void) {
    open_device();
    const struct rampart_listed wrong[] = {list_of(0, 3, 0, 0), list_of(0, 1, 3, 0), list_of(0, 1, 0, ORDERS),
        list_of(0, UINT32_MAX, 0, 0), list_of(0, 1, UINT32_MAX, 0), list_of(0, 1, 0, UINT32_MAX)};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct rampart_listed list = wrong[i];
        must(lists(&list) == EINVAL, "a list that cannot be");
    }
    for (uint64_t node = 1; node <= UINT32_MAX; node = node * 2 + 1) {
        struct rampart_listed list = list_of(node, RAMPART_ZONE_DMA32, 0, 0);
        must(lists(&list) == ENXIO && !list.claim, "a list of a node that is not there");
    }
    must(ioctl(device, RAMPART_CLAIM_LISTED, NULL) == -1 && errno == EFAULT, "a list from nowhere");
    struct rampart_listed list = claim_listed();
    must(list.frames == 1u << list.order && list.first % list.frames == 0, "a block of the order");
    must(list.first >= 1 << 12 && list.first < 1 << 20, "a block of the zone");
    uint64_t flags[BLOCK];
    read_flags(list.first, flags, list.frames);
    for (uint32_t i = 0; i < list.frames; i++) {
        must(!(flags[i] & FREE) && flags[i] & OFFLINE, "a claimed frame is offline");
        must(age(list.first + i) & RAMPART_AGE_HELD, "a claimed frame is held");
    }
    volatile uint64_t *memory = window(list.first, list.frames);
    test(memory, list.frames);
    struct rampart_claim other = claim_of(list.first, 1, RAMPART_CLAIM_FREE);
    must(claims(&other) == EBUSY && other.in_use == 1, "a claim of what is claimed");
    must(unlists(&list, RAMPART_TESTED) == 0, "GIVE_BACK");
    must(signal_of(memory) == SIGBUS, "a late touch");
    must(unlists(&list, RAMPART_TESTED) == ESTALE, "a second verdict");
    must(!(age(list.first) & RAMPART_AGE_HELD) && age(list.first) & RAMPART_AGE_TESTED, "a tested frame");
}

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"free", test_free},
    {"beside", test_beside},
    {"listed", test_listed},
    {"lists", relist},
    {"move", test_all},
    {"programs", test_programs},
    {"coverage", coverage},
    {"age", print_age},
    {"held", print_held},
    {"at-hand", at_hand},
    {"hold", hold},
    {"leak", leak},
    {"retire", retire},
    {"unlist", unlist},
    {"user", user},
    {"neighbours", neighbours},
    {"late", late},
    {"refusals", refusals},
    {"aliases", aliases},
    {"forked", forked},
    {"ages", ages},
    {"from-list", from_list},
};

int main(int arguments, char **values) {
    must(arguments > 1 && arguments <= 4, "window CASE [NUMBER...]");
    for (count = 0; count + 2 < arguments; count++) words[count] = strtoull(values[count + 2], NULL, 0);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        if (!strcmp(values[1], CASES[i].name)) {
            CASES[i].run();
            return 0;
        }
    }
    must(0, "no such case");
}
