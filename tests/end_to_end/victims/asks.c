/* A program that gives memory back, moves it and changes its protection, page by page in the middle of a heap that is
 * much larger than what a guard leaves unlocked, and says what it finds there then. The first argument says how it
 * asks for that: by the functions of the C library (libc), by their numbers (number), by those in a signal handler
 * (handler), or by an instruction of its own (instruction). If others follow, they name what is done. What it says
 * does not depend on a guard, but for an instruction, which no guard sees. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { PAGE = 4096, PAGES = 8192, SPAN = 4, APART = 200 };

static unsigned char *heap, *spare;
static int by_number, by_instruction, file, own;

static unsigned char at(size_t page, size_t byte) { return (unsigned char)(page * 31 + byte * 7 + (page >> 8) + 1); }

static void fill(size_t page) {
    for (size_t byte = 0; byte < PAGE; byte++) heap[page * PAGE + byte] = at(page, byte) ? at(page, byte) : 255;
}

/* Everything that was used is locked by now, but for the last few MiB. */
static void settle(void) { usleep(200000); }

static sigjmp_buf back;

static void jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

/* As it was, zeros, a fault, or anything else. */
static char look(const volatile unsigned char *here, size_t page) {
    size_t kept = 0, zeros = 0;
    if (sigsetjmp(back, 1)) return 'F';
    for (size_t byte = 0; byte < PAGE; byte++) {
        unsigned char there = here[byte];
        kept += there == (at(page, byte) ? at(page, byte) : 255);
        zeros += there == 0;
    }
    return kept == PAGE ? 'k' : zeros == PAGE ? '0' : '?';
}

static char writes(volatile unsigned char *here) {
    if (sigsetjmp(back, 1)) return 'F';
    here[100] = here[100];
    return 'w';
}

static long instruct(long call, long a, long b, long c, long d, long e, long f) {
    long got;
#if defined(__x86_64__)
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(got) : "a"(call), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = call, first __asm__("x0") = a, second __asm__("x1") = b, third __asm__("x2") = c;
    register long fourth __asm__("x3") = d, fifth __asm__("x4") = e, sixth __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth) : "memory");
    got = first;
#endif
    if (got >= 0 || got < -4095) return got;
    errno = (int)-got;
    return -1;
}

static long number(long call, long a, long b, long c, long d, long e, long f) {
    return by_instruction ? instruct(call, a, b, c, d, e, f) : syscall(call, a, b, c, d, e, f);
}

static long ask(long call, long a, long b, long c, long d, long e, long f) {
    if (by_number) return number(call, a, b, c, d, e, f);
    void *first = (void *)a;
    switch (call) {
    case SYS_madvise: return madvise(first, (size_t)b, (int)c);
    case SYS_munmap: return munmap(first, (size_t)b);
    case SYS_mprotect: return mprotect(first, (size_t)b, (int)c);
    case SYS_pkey_mprotect: return pkey_mprotect(first, (size_t)b, (int)c, (int)d);
    case SYS_mremap: return (long)mremap(first, (size_t)b, (size_t)c, (int)d, (void *)e);
    case SYS_mmap: return (long)mmap(first, (size_t)b, (int)c, (int)d, (int)e, f);
    case SYS_mlock: return mlock(first, (size_t)b);
    case SYS_munlock: return munlock(first, (size_t)b);
    case SYS_process_madvise: {
        ssize_t (*advise)(int, const struct iovec *, size_t, int, unsigned) = dlsym(RTLD_DEFAULT, "process_madvise");
        return advise ? advise((int)a, (void *)b, (size_t)c, (int)d, (unsigned)e) : number(call, a, b, c, d, e, f);
    }
    }
    abort();
}

struct act {
    const char *name;
    /* With the first of its pages. */
    long (*run)(unsigned char *here);
    /* A heap page may be freed later, or not at all. */
    int may_keep;
};

#define ADVICE(advice) static long advise_##advice(unsigned char *here) { return ask(SYS_madvise, (long)here, SPAN * PAGE, advice, 0, 0, 0); }
ADVICE(MADV_DONTNEED)
ADVICE(MADV_FREE)
ADVICE(MADV_REMOVE)
ADVICE(MADV_DONTNEED_LOCKED)
ADVICE(MADV_PAGEOUT)
ADVICE(MADV_COLD)
ADVICE(MADV_WILLNEED)
ADVICE(12345)

/* Two runs of a page. Kernels before 6.13 take only advice that changes no content. */
static long advise_process(unsigned char *here, int advice) {
    struct iovec pieces[2] = {{here, PAGE}, {here + 2 * PAGE, PAGE}};
    return ask(SYS_process_madvise, own, (long)pieces, 2, advice, 0, 0);
}
static long process_gives(unsigned char *here) { return advise_process(here, MADV_DONTNEED); }
static long process_pages_out(unsigned char *here) { return advise_process(here, MADV_PAGEOUT); }
static long process_errs(unsigned char *here) {
    struct iovec piece = {here, PAGE};
    return ask(SYS_process_madvise, -1, (long)&piece, 1, MADV_DONTNEED, 0, 0);
}

static long unmaps(unsigned char *here) { return ask(SYS_munmap, (long)here, SPAN * PAGE, 0, 0, 0, 0); }
static long unmaps_badly(unsigned char *here) { return ask(SYS_munmap, (long)here + 1, PAGE, 0, 0, 0, 0); }
static long gives_back_holes(unsigned char *here) {
    if (ask(SYS_munmap, (long)here + PAGE, PAGE, 0, 0, 0, 0)) return -2;
    return ask(SYS_madvise, (long)here, SPAN * PAGE, MADV_DONTNEED, 0, 0, 0);
}
static long takes_rights(unsigned char *here) { return ask(SYS_mprotect, (long)here, SPAN * PAGE, PROT_NONE, 0, 0, 0); }
static long takes_writes(unsigned char *here) { return ask(SYS_mprotect, (long)here, SPAN * PAGE, PROT_READ, 0, 0, 0); }
static long takes_and_gives(unsigned char *here) {
    if (ask(SYS_mprotect, (long)here, SPAN * PAGE, PROT_NONE, 0, 0, 0)) return -2;
    return ask(SYS_mprotect, (long)here, SPAN * PAGE, PROT_READ | PROT_WRITE, 0, 0, 0);
}
static long takes_by_key(unsigned char *here) { return ask(SYS_pkey_mprotect, (long)here, SPAN * PAGE, PROT_READ, -1, 0, 0); }
static long maps_over(unsigned char *here, int protection, int flags, int from) {
    long got = ask(SYS_mmap, (long)here, SPAN * PAGE, protection, MAP_FIXED | flags, from, 0);
    return got == -1 ? -1 : got != (long)here;
}
static long maps_zeros(unsigned char *here) { return maps_over(here, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1); }
static long maps_nothing(unsigned char *here) { return maps_over(here, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1); }
static long maps_file(unsigned char *here) { return maps_over(here, PROT_READ | PROT_WRITE, MAP_SHARED, file); }
static long removes_of_file(unsigned char *here) {
    if (maps_over(here, PROT_READ | PROT_WRITE, MAP_SHARED, file)) return -2;
    for (size_t byte = 0; byte < SPAN * PAGE; byte++) here[byte] = 1;
    return ask(SYS_madvise, (long)here, SPAN * PAGE, MADV_REMOVE, 0, 0, 0);
}
static long moves(unsigned char *here) {
    long got = ask(SYS_mremap, (long)here, SPAN * PAGE, SPAN * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (long)spare, 0);
    if (got != (long)spare) return got == -1 ? -1 : -2;
    size_t first = (size_t)(here - heap) / PAGE;
    for (size_t page = 0; page < SPAN; page++)
        if (look(spare + page * PAGE, first + page) != 'k') return -3;
    return 0;
}
static long moves_and_comes_back(unsigned char *here) {
    if (moves(here)) return -4;
    long got = ask(SYS_mremap, (long)spare, SPAN * PAGE, SPAN * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (long)here, 0);
    return got == (long)here ? 0 : got == -1 ? -1 : -2;
}
static long doubles(unsigned char *here) { return ask(SYS_mremap, (long)here, 0, PAGE, MREMAP_MAYMOVE, 0, 0) == -1 ? -1 : 1; }
static long locks(unsigned char *here) {
    if (ask(SYS_mlock, (long)here, SPAN * PAGE, 0, 0, 0, 0)) return -2;
    return ask(SYS_madvise, (long)here, SPAN * PAGE, MADV_DONTNEED, 0, 0, 0);
}
static long unlocks(unsigned char *here) {
    if (ask(SYS_mlock, (long)here, SPAN * PAGE, 0, 0, 0, 0) || ask(SYS_munlock, (long)here, SPAN * PAGE, 0, 0, 0, 0)) return -2;
    return ask(SYS_madvise, (long)here, SPAN * PAGE, MADV_DONTNEED, 0, 0, 0);
}

static const struct act acts[] = {
    {"madvise dontneed", advise_MADV_DONTNEED, 0},
    {"madvise free", advise_MADV_FREE, 1},
    {"madvise remove", advise_MADV_REMOVE, 0},
    {"madvise dontneed-locked", advise_MADV_DONTNEED_LOCKED, 0},
    {"madvise pageout", advise_MADV_PAGEOUT, 0},
    {"madvise cold", advise_MADV_COLD, 0},
    {"madvise willneed", advise_MADV_WILLNEED, 0},
    {"madvise unknown", advise_12345, 0},
    {"madvise over a hole", gives_back_holes, 0},
    {"process_madvise dontneed", process_gives, 0},
    {"process_madvise pageout", process_pages_out, 0},
    {"process_madvise of nobody", process_errs, 0},
    {"munmap", unmaps, 0},
    {"munmap unaligned", unmaps_badly, 0},
    {"mprotect none", takes_rights, 0},
    {"mprotect read", takes_writes, 0},
    {"mprotect none and back", takes_and_gives, 0},
    {"pkey_mprotect read", takes_by_key, 0},
    {"mmap over", maps_zeros, 0},
    {"mmap nothing over", maps_nothing, 0},
    {"mmap a file over", maps_file, 0},
    {"madvise remove of a file", removes_of_file, 0},
    {"mremap away", moves, 0},
    {"mremap away and back", moves_and_comes_back, 0},
    {"mremap of nothing", doubles, 0},
    {"mlock", locks, 0},
    {"munlock", unlocks, 0},
};

enum { ACTS = sizeof acts / sizeof *acts };

/* What a library did to some pages before a guard had begun (early.c), if it is linked. */
enum { EARLY = 8 };

unsigned char *early_pages(void) __attribute__((weak));

static void say_early(const char *when) {
    unsigned char *early = early_pages();
    printf("early %s:", when);
    for (size_t page = 0; page < EARLY; page++) printf(" %c%c", look(early + page * PAGE, page), writes(early + page * PAGE));
    putchar('\n');
}

static size_t turn;
static long returned;
static int why;

static void act(int signal) {
    (void)signal;
    errno = 0;
    returned = acts[turn].run(heap + (turn * APART + APART) * PAGE);
    why = returned == -1 ? errno : 0;
}

/* Each page, those before and behind too; one that may be kept or freed is written, and then it must be as it was or
 * zeros. */
static void say(size_t of) {
    size_t first = of * APART + APART;
    printf("%s:", acts[of].name);
    for (size_t page = first - 1; page <= first + SPAN; page++) {
        char there = look(heap + page * PAGE, page);
        if (acts[of].may_keep && page >= first && page < first + SPAN && there == 'k') there = '0';
        printf(" %c%c", there, writes(heap + page * PAGE));
    }
    putchar('\n');
}

static int names(int count, char **arguments, const char *name) {
    for (int which = 2; which < count; which++)
        if (!strcmp(arguments[which], name)) return 1;
    return count == 2;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    by_instruction = !strcmp(arguments[1], "instruction");
    by_number = strcmp(arguments[1], "libc") != 0;
    file = open("asks.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    heap = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
    spare = mmap(NULL, SPAN * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (file < 0 || ftruncate(file, SPAN * PAGE) || !heap || spare == MAP_FAILED || own < 0) return 3;
    signal(SIGSEGV, jump);
    signal(SIGBUS, jump);
    signal(SIGUSR1, act);
    for (size_t page = 0; page < PAGES; page++) fill(page);
    settle();
    for (turn = 0; turn < ACTS; turn++) {
        if (!names(count, arguments, acts[turn].name)) continue;
        if (strcmp(arguments[1], "handler")) act(0);
        else raise(SIGUSR1);
        printf("%s = %ld %s\n", acts[turn].name, returned, why ? strerror(why) : "");
    }
    for (int round = 0; round < 2; round++) {
        for (size_t of = 0; of < ACTS; of++)
            if (names(count, arguments, acts[of].name)) say(of);
        settle();
        if (early_pages) {
            say_early(round ? "again" : "at first");
            if (round && ask(SYS_madvise, (long)early_pages(), 4 * PAGE, MADV_DONTNEED, 0, 0, 0)) return 6;
            if (round) say_early("given back");
        }
        for (size_t page = PAGES - 2000; page < PAGES; page++)
            if (look(heap + page * PAGE, page) != 'k') return 5;
        settle();
    }
    return 0;
}
