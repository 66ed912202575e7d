/* A program with memory hooks as those of Open MPI and UCX: the first instructions of functions of the C library, as
 * it finds them, become a jump to a function of its own, which counts and asks the kernel by syscall(2). Then it
 * gives back memory in the middle of a heap that is much larger than what a guard leaves unlocked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8192, THREADS = 4 };

static int unmapped, mapped, advised, moved;

static void *hook_mmap(void *first, size_t length, int protection, int flags, int file, off_t offset) {
    __atomic_fetch_add(&mapped, 1, __ATOMIC_RELAXED);
    return (void *)syscall(SYS_mmap, first, length, protection, flags, file, offset);
}

static int hook_munmap(void *first, size_t length) {
    __atomic_fetch_add(&unmapped, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_munmap, first, length);
}

static int hook_madvise(void *first, size_t length, int advice) {
    __atomic_fetch_add(&advised, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_madvise, first, length, advice);
}

static void *hook_mremap(void *first, size_t old, size_t new, int flags, void *to) {
    __atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
    return (void *)syscall(SYS_mremap, first, old, new, flags, to);
}

static void overwrite(const char *name, void *hook) {
    unsigned char *code = dlsym(RTLD_DEFAULT, name);
#if defined(__x86_64__)
    unsigned char jump[13] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}; /* mov r11, hook; jmp r11 */
    memcpy(jump + 2, &hook, 8);
#elif defined(__aarch64__)
    unsigned char jump[16] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6}; /* ldr x16, hook; br x16 */
    memcpy(jump + 8, &hook, 8);
#endif
    unsigned char *first = (unsigned char *)((uintptr_t)code / PAGE * PAGE);
    if (!code || mprotect(first, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC)) exit(3);
    memcpy(code, jump, sizeof jump);
    __builtin___clear_cache((char *)code, (char *)code + sizeof jump);
    if (mprotect(first, 2 * PAGE, PROT_READ | PROT_EXEC)) exit(4);
}

static unsigned char *heap;

static unsigned char at(size_t page, size_t byte) { return (unsigned char)(page * 31 + byte * 7 + (page >> 8)); }

static void fill(size_t page) {
    for (size_t byte = 0; byte < PAGE; byte++) heap[page * PAGE + byte] = at(page, byte);
}

static int holds(size_t page, int zeros) {
    for (size_t byte = 0; byte < PAGE; byte++)
        if (heap[page * PAGE + byte] != (zeros ? 0 : at(page, byte))) return 0;
    return 1;
}

/* Much that an allocator unmaps or gives back, beside what the program gives back itself. */
static void *churn(void *argument) {
    size_t first = 100 + (size_t)argument * 1000;
    for (size_t round = 0; round < 50; round++) {
        size_t length = (round % 7 + 1) << 20;
        unsigned char *more = malloc(length), *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!more || mapping == MAP_FAILED) exit(5);
        for (size_t at = 0; at < length; at += PAGE) more[at] = mapping[at] = (unsigned char)round;
        for (size_t at = 0; at < length; at += PAGE)
            if (more[at] != round || mapping[at] != round) exit(6);
        size_t page = first + round * 16;
        if (madvise(heap + page * PAGE, 2 * PAGE, MADV_DONTNEED) || !holds(page, 1) || !holds(page + 1, 1)) exit(7);
        fill(page + 1);
        if (munmap(mapping, length)) exit(8);
        free(more);
    }
    return NULL;
}

int main(void) {
    overwrite("mmap", (void *)hook_mmap);
    overwrite("munmap", (void *)hook_munmap);
    overwrite("madvise", (void *)hook_madvise);
    overwrite("mremap", (void *)hook_mremap);
    heap = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
    if (!heap) return 3;
    for (size_t page = 0; page < PAGES; page++) fill(page);
    usleep(200000);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)i)) return 9;
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_join(threads[i], NULL)) return 10;
    /* Elsewhere the pages are as they were, and what was given back and not filled since is zeros still. */
    unsigned char *there = mremap(heap + 50 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                                  mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (there == MAP_FAILED || there[9] != at(50, 9) || munmap(heap + 60 * PAGE, PAGE)) return 11;
    for (size_t page = 0; page < PAGES; page++) {
        size_t round = page % 1000 - 100;
        int given_back = page < 4000 && round < 800 && round % 16 == 0;
        if (page != 50 && page != 60 && !holds(page, given_back)) return 12;
    }
    if (mmap(heap + 60 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != heap + 60 * PAGE) return 13;
    if (unmapped < 201 || mapped < 202 || advised < 200 || moved < 1) return 14;
    puts("right");
    return 0;
}
