/* A program that does to mappings what mmap(2) and its relatives allow, and checks every page after each step
 * against a list of what must be there. Each mapping is larger than what a guard leaves unlocked, or many are. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* which calls the other of two names of mmap */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, PER_MIB = MIB / PAGE };

static unsigned char *map(size_t bytes) {
    unsigned char *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) exit(3);
    return found;
}

static void check(int right, int code) {
    if (!right) _exit(code);
}

static void settle(void) { usleep(150000); }

static uint64_t at(size_t page, size_t word, unsigned seed) { return (page * 512 + word) * 0x9e3779b97f4a7c15u + seed; }

static void fill(unsigned char *from, size_t first, size_t pages, unsigned seed) {
    for (size_t page = first; page < first + pages; page++)
        for (size_t word = 0; word < 512; word++) ((uint64_t *)(from + page * PAGE))[word] = at(page, word, seed);
}

static int right(const unsigned char *from, size_t first, size_t pages, unsigned seed) {
    for (size_t page = first; page < first + pages; page++)
        for (size_t word = 0; word < 512; word++)
            if (((const uint64_t *)(from + page * PAGE))[word] != at(page, word, seed)) return 0;
    return 1;
}

static int zeros(const unsigned char *from, size_t first, size_t pages) {
    for (size_t word = first * 512; word < (first + pages) * 512; word++)
        if (((const uint64_t *)from)[word]) return 0;
    return 1;
}

/* Parts go, from the middle and both ends; what is mapped next is zeros, and the rest is as it was. */
static void unmaps_parts(void) {
    size_t pages = 24 * PER_MIB;
    unsigned char *old = map(pages * PAGE);
    fill(old, 0, pages, 1);
    settle();
    check(!munmap(old + 1000 * PAGE, 700 * PAGE) && !munmap(old, 300 * PAGE) && !munmap(old + (pages - 5) * PAGE, 5 * PAGE), 4);
    check(!munmap(old + 900 * PAGE, 900 * PAGE), 5); /* in part for the second time, which is no error */
    settle();
    unsigned char *new[8];
    for (int i = 0; i < 8; i++) {
        new[i] = map(2 * MIB);
        check(zeros(new[i], 0, 2 * PER_MIB), 6);
        fill(new[i], 0, 2 * PER_MIB, 10 + i);
    }
    settle();
    check(right(old, 300, 600, 1) && right(old, 1800, pages - 1805, 1), 7);
    for (int i = 0; i < 8; i++) check(right(new[i], 0, 2 * PER_MIB, 10 + i) && !munmap(new[i], 2 * MIB), 8);
    check(!munmap(old, pages * PAGE), 9);
}

/* One mapping after the other, together far larger than the memory; now and then a large one of which little is
 * used. */
static void maps_again_and_again(void) {
    unsigned char *kept = map(3 * MIB + PAGE);
    fill(kept, 0, 3 * PER_MIB + 1, 5);
    for (int i = 0; i < 1000; i++) {
        size_t bytes = (size_t)(1 + i % 5) * MIB + (size_t)(i % 7) * PAGE;
        unsigned char *found = map(bytes + (i % 100 ? 0 : 1000 * (size_t)MIB));
        check(!found[0] && !found[bytes / 2] && !found[bytes - 1], 4);
        found[0] = found[bytes / 2] = found[bytes - 1] = 1;
        check(!munmap(found, bytes + (i % 100 ? 0 : 1000 * (size_t)MIB)), 5);
    }
    check(right(kept, 0, 3 * PER_MIB + 1, 5), 6);
}

static void grows_and_moves(void) {
    size_t pages = 4 * PER_MIB;
    unsigned char *one = map(pages * PAGE), *between = map(MIB);
    fill(one, 0, pages, 1);
    fill(between, 0, PER_MIB, 2);
    for (int i = 0; i < 5; i++) {
        settle();
        size_t more = pages + 3 * PER_MIB + (size_t)i;
        one = mremap(one, pages * PAGE, more * PAGE, MREMAP_MAYMOVE);
        check(one != MAP_FAILED && right(one, 0, pages, 1) && zeros(one, pages, more - pages), 4);
        fill(one, 0, pages = more, 1);
    }
    check(right(between, 0, PER_MIB, 2), 5);
    settle();
    check(mremap(one, pages * PAGE, 3 * MIB, 0) == one && right(one, 0, 3 * PER_MIB, 1), 6);
    unsigned char *there = mmap(NULL, 3 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mremap(one, 3 * MIB, 3 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there && right(there, 0, 3 * PER_MIB, 1), 7);
    check(mremap(there, 3 * MIB, PAGE, 0) == there && right(there, 0, 1, 1), 8);
    check(right(between, 0, PER_MIB, 2), 9);
    /* What had protection of its own keeps them where it moves to. */
    settle();
    check(!mprotect(between, PAGE, PROT_READ), 10);
    between = mremap(between, MIB, 9 * MIB, MREMAP_MAYMOVE);
    check(between != MAP_FAILED || errno == EFAULT, 11); /* two kinds of pages: not moved at once */
}

static void maps_over(void) {
    size_t pages = 16 * PER_MIB;
    unsigned char *old = map(pages * PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, file = open("victim.over", O_RDWR | O_CREAT | O_TRUNC, 0600);
    static unsigned char content[4 * PAGE];
    memset(content, 0x6b, sizeof content);
    check(write(file, content, sizeof content) == sizeof content, 3);
    fill(old, 0, pages, 1);
    settle();
    /* New memory, memory without protection that is given them later, a file, and memory that is shared. */
    check(mmap(old + 100 * PAGE, 600 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == old + 100 * PAGE, 4);
    check(mmap(old + 1000 * PAGE, 20 * PAGE, PROT_NONE, flags | MAP_NORESERVE, -1, 0) == old + 1000 * PAGE, 5);
    check(mmap(old + 1500 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == old + 1500 * PAGE, 6);
    check(mmap(old + 2000 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == old + 2000 * PAGE, 7);
    settle();
    check(zeros(old, 100, 600) && zeros(old, 2000, 8) && !memcmp(old + 1500 * PAGE, content, sizeof content), 8);
    check(!mprotect(old + 1000 * PAGE, 20 * PAGE, PROT_READ | PROT_WRITE) && zeros(old, 1000, 20), 9);
    fill(old, 100, 600, 2);
    fill(old, 2000, 8, 3);
    memset(old + 1501 * PAGE, 0x11, PAGE);
    unsigned char back[PAGE];
    check(pread(file, back, PAGE, PAGE) == PAGE && back[9] == 0x11, 10);
    settle();
    check(right(old, 0, 100, 1) && right(old, 100, 600, 2) && right(old, 700, 300, 1) && right(old, 1020, 480, 1), 11);
    check(right(old, 1504, 496, 1) && right(old, 2000, 8, 3) && right(old, 2008, pages - 2008, 1), 12);
    pid_t child = fork();
    if (child == 0) {
        check(right(old, 100, 600, 2) && right(old, 2000, 8, 3) && old[1501 * PAGE] == 0x11, 13);
        fill(old, 2000, 8, 4);
        _exit(0);
    }
    int status;
    check(waitpid(child, &status, 0) == child && status == 0 && right(old, 2000, 8, 4), 14);
    check(!munmap(old, pages * PAGE), 15);
    unsigned char *new = map(pages * PAGE);
    check(zeros(new, 0, pages), 16);
}

static sigjmp_buf back;

static void jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static int faults(volatile unsigned char *here) {
    struct sigaction action = {.sa_handler = jump}, before;
    sigaction(SIGSEGV, &action, &before);
    int faulted = sigsetjmp(back, 1);
    if (!faulted) *here = 1;
    sigaction(SIGSEGV, &before, NULL);
    return faulted;
}

/* Rights that a program takes are taken, from its child too and while the rest is locked; and gone with the mapping. */
static void has_protection(void) {
    size_t pages = 16 * PER_MIB;
    unsigned char *old = map(pages * PAGE);
    fill(old, 0, pages, 1);
    settle();
    check(!mprotect(old + 700 * PAGE, 10 * PAGE, PROT_READ) && !mprotect(old + 2000 * PAGE, PAGE, PROT_NONE), 4);
    check(!mprotect(old + 3000 * PAGE, PAGE, PROT_READ | PROT_WRITE), 5);
    pid_t child = fork();
    for (int round = 0; round < 3; round++) {
        settle();
        check(right(old, 0, 2000, 1) && right(old, 2001, pages - 2001, 1), 6);
        check(faults(old + 705 * PAGE) && faults(old + 2000 * PAGE) && !faults(old + 3001 * PAGE), 7);
        fill(old, 3001, 1, 1);
    }
    if (child == 0) _exit(0);
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, 8);
    check(!munmap(old, pages * PAGE), 9);
    unsigned char *new = map(pages * PAGE);
    fill(new, 0, pages, 2);
    settle();
    check(right(new, 0, pages, 2), 10);
}

static void takes_advice(void) {
    size_t pages = 16 * PER_MIB;
    unsigned char *old = map(pages * PAGE);
    fill(old, 0, pages, 1);
    settle();
    int hints[] = {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTDUMP, MADV_NORMAL};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) check(!madvise(old + (333 * i + 3) * PAGE, 100 * PAGE, hints[i]) || errno == EINVAL, 4);
    check(!madvise(old + 1001 * PAGE, 600 * PAGE, MADV_DONTNEED) && !madvise(old + 3000 * PAGE, PAGE, MADV_FREE), 5);
    check(zeros(old, 1001, 600), 6);
    check(!madvise(old + 500 * PAGE, 40 * PAGE, MADV_POPULATE_WRITE) || errno == EINVAL, 7);
    settle();
    fill(old, 3000, 1, 1);
    check(right(old, 0, 1001, 1) && zeros(old, 1001, 600) && right(old, 1601, pages - 1601, 1), 8);
    /* A child does not get what its parent keeps from it, and gets zeros where that was asked for. */
    check(!madvise(old + 2000 * PAGE, 512 * PAGE, MADV_WIPEONFORK), 9);
    pid_t child = fork();
    if (child == 0) _exit(zeros(old, 2000, 512) && right(old, 2512, pages - 2512, 1) ? 0 : 10);
    int status;
    check(waitpid(child, &status, 0) == child && status == 0 && right(old, 2000, 512, 1), 11);
}

/* Stacks and control blocks of threads in memory that the program mapped. */
static void *recurse(void *depth) {
    volatile unsigned char frame[64 * 1024];
    memset((void *)frame, (int)(intptr_t)depth, sizeof frame);
    if (depth) recurse((void *)((intptr_t)depth - 1));
    check(frame[5000] == (unsigned char)(intptr_t)depth, 4);
    return NULL;
}

static void has_stacks(void) {
    size_t stack = 4 * MIB;
    unsigned char *all = map(12 * stack), *busy = map(32 * MIB);
    for (int round = 0; round < 3; round++) {
        pthread_t threads[12];
        for (int i = 0; i < 12; i++) {
            pthread_attr_t attributes;
            pthread_attr_init(&attributes);
            check(!pthread_attr_setstack(&attributes, all + i * stack, stack), 5);
            check(!pthread_create(&threads[i], &attributes, recurse, (void *)40), 6);
        }
        fill(busy, 0, 32 * PER_MIB, 1);
        for (int i = 0; i < 12; i++) check(!pthread_join(threads[i], NULL), 7);
        check(right(busy, 0, 32 * PER_MIB, 1), 8);
    }
}

/* Four threads map, fill, check and unmap, while children are forked from a fifth. */
static void *churn(void *seed) {
    unsigned state = (unsigned)(intptr_t)seed;
    for (int i = 0; i < 20; i++) {
        state = state * 1103515245 + 12345;
        size_t pages = PER_MIB + (state >> 16) % (3 * PER_MIB);
        unsigned char *found = map(pages * PAGE);
        check(zeros(found, 0, pages), 4);
        fill(found, 0, pages, state);
        size_t from = (state >> 8) % pages;
        check(!munmap(found + from * PAGE, PAGE), 5);
        check(right(found, 0, from, state) && right(found, from + 1, pages - from - 1, state), 6);
        check(!munmap(found, pages * PAGE), 7);
    }
    return NULL;
}

static void races(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) check(!pthread_create(&threads[i], NULL, churn, (void *)(intptr_t)(i + 1)), 8);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            churn((void *)9);
            _exit(0);
        }
        int status;
        check(waitpid(child, &status, 0) == child && status == 0, 9);
    }
    for (int i = 0; i < 4; i++) check(!pthread_join(threads[i], NULL), 10);
}

/* What cannot be guarded works as ever. */
static void leaves_alone(void) {
    size_t bytes = 8 * MIB;
    int protection = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *all[5] = {
        mmap(NULL, bytes, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
        mmap(NULL, bytes, PROT_NONE, private | MAP_NORESERVE, -1, 0),
        mmap(NULL, bytes, protection | PROT_EXEC, private, -1, 0),
        mmap(NULL, bytes, protection, private | MAP_STACK, -1, 0),
        mmap((void *)0x200000000000, bytes, protection, private, -1, 0),
    };
    check(!mprotect(all[1], bytes, protection), 3);
    for (int i = 0; i < 5; i++) check(all[i] != MAP_FAILED, 4);
    for (int i = 0; i < 5; i++) fill(all[i], 0, 8 * PER_MIB, (unsigned)i);
    settle();
    for (int i = 0; i < 5; i++) check(right(all[i], 0, 8 * PER_MIB, (unsigned)i) && !munmap(all[i], bytes), 5);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"unmaps-parts", unmaps_parts}, {"again-and-again", maps_again_and_again}, {"grows-and-moves", grows_and_moves},
        {"maps-over", maps_over}, {"has-protection", has_protection}, {"takes-advice", takes_advice}, {"has-stacks", has_stacks},
        {"races", races}, {"leaves-alone", leaves_alone},
    };
    for (size_t i = 0; count == 2 && i < sizeof all / sizeof *all; i++) {
        if (strcmp(arguments[1], all[i].name)) continue;
        all[i].run();
        puts("right");
        return 0;
    }
    return 2;
}
