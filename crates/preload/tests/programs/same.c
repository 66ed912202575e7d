/* The guarantees of malloc(3), posix_memalign(3) and POSIX fork(2), printed; the same on every correct allocator. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile size_t huge = SIZE_MAX / 2;

static void limits(void) {
    errno = 0;
    printf("malloc too much: %p %d\n", malloc(huge), errno == ENOMEM);
    errno = 0;
    printf("calloc too much: %p %d\n", calloc(huge, 4), errno == ENOMEM);
    errno = 0;
    printf("reallocarray too much: %p %d\n", reallocarray(NULL, huge, 4), errno == ENOMEM);
    errno = 0;
    printf("pvalloc too much: %p %d\n", pvalloc(SIZE_MAX - 5), errno == ENOMEM);
    errno = 0;
    printf("aligned_alloc too much: %p %d\n", aligned_alloc(4096, huge), errno == ENOMEM);
    void *kept = (void *)1;
    errno = 7;
    printf("posix_memalign of 3: %d %p %d\n", posix_memalign(&kept, 3, 8) == EINVAL, kept, errno);
    printf("posix_memalign of 4: %d %p %d\n", posix_memalign(&kept, 4, 8) == EINVAL, kept, errno);
    printf("posix_memalign too much: %d %p %d\n", posix_memalign(&kept, 64, huge) == ENOMEM, kept, errno);
    char *block = malloc(100);
    memset(block, 'x', 100);
    errno = 0;
    printf("realloc too much: %p %d, kept %c\n", realloc(block, huge), errno == ENOMEM, block[99]);
    printf("realloc to nothing: %p\n", realloc(block, 0));
    free(NULL);
    printf("usable size of null: %zu\n", malloc_usable_size(NULL));
    void *empty = malloc(0);
    printf("malloc of nothing is something: %d\n", empty != NULL);
    free(empty);
    errno = 5;
    free(malloc(50));
    free(malloc(50 << 20));
    printf("free leaves errno: %d\n", errno);
}

static void aligned(void) {
    for (size_t alignment = 8; alignment <= 2 << 20; alignment *= 2) {
        void *first = NULL;
        int failed = posix_memalign(&first, alignment, 1000);
        void *second = aligned_alloc(alignment, 3 * alignment), *third = memalign(alignment, 10);
        uintptr_t all = (uintptr_t)first | (uintptr_t)second | (uintptr_t)third;
        printf("alignment %zu: %d %d\n", alignment, failed, (int)(all % alignment));
        printf("usable: %d\n", malloc_usable_size(first) >= 1000 && malloc_usable_size(second) >= 3 * alignment);
        free(first), free(second), free(third);
    }
    printf("pages: %d %d\n", (int)((uintptr_t)valloc(1) % 4096), (int)((uintptr_t)pvalloc(1) % 4096));
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Random operations on 500 blocks, with the block's number in each byte. */
static void *life(void *seed) {
    uint64_t state = (uintptr_t)seed * 0x9e3779b97f4a7c15u, sum = 0;
    unsigned char *blocks[500] = {0};
    size_t sizes[500] = {0};
    for (int step = 0; step < 20000; step++) {
        int at = next(&state) % 500;
        size_t size = 1 + next(&state) % (next(&state) % 50 ? 400 : 200000), kept = sizes[at] < size ? sizes[at] : size;
        for (size_t i = 0; i < sizes[at]; i += 97) sum += blocks[at][i];
        if (next(&state) % 2) {
            blocks[at] = realloc(blocks[at], size);
            for (size_t i = 0; i < kept; i += 97) sum += blocks[at][i];
        } else {
            free(blocks[at]);
            blocks[at] = calloc(1, size);
            for (size_t i = 0; i < size; i += 97) sum += blocks[at][i];
        }
        sizes[at] = size;
        memset(blocks[at], at & 255, size);
    }
    for (int at = 0; at < 500; at++) free(blocks[at]);
    return (void *)(uintptr_t)sum;
}

static void threads(void) {
    for (int round = 0; round < 3; round++) {
        pthread_t ids[10];
        for (uintptr_t i = 0; i < 10; i++) pthread_create(&ids[i], NULL, life, (void *)(i + 10 * round + 1));
        for (int i = 0; i < 10; i++) {
            void *sum;
            pthread_join(ids[i], &sum);
            printf("thread %d: %lu\n", i, (unsigned long)(uintptr_t)sum);
        }
    }
}

static volatile int stop;

static void *churn(void *unused) {
    (void)unused;
    while (!stop) free(malloc(1 + rand() % 100000));
    return NULL;
}

/* Children of a process whose other threads are in the middle of malloc. */
static void forks(void) {
    pthread_t ids[4];
    for (int i = 0; i < 4; i++) pthread_create(&ids[i], NULL, churn, NULL);
    int right = 0;
    for (uintptr_t i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t id;
            void *sum = NULL;
            char *block = malloc(300000);
            memset(block, 1, 300000);
            free(block);
            if (i % 10 == 0 && (pthread_create(&id, NULL, life, (void *)3) || pthread_join(id, &sum))) _exit(1);
            _exit(i % 10 == 0 && sum == NULL);
        }
        int status;
        waitpid(child, &status, 0);
        right += status == 0;
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(ids[i], NULL);
    printf("children that were right: %d\n", right);
}

int main(void) {
    limits();
    aligned();
    threads();
    forks();
    char *large = malloc((size_t)1 << 30);
    large[0] = large[((size_t)1 << 30) - 1] = 'l';
    large = realloc(large, ((size_t)1 << 30) + 4096);
    printf("a gibibyte: %c%c\n", large[0], large[((size_t)1 << 30) - 1]);
    free(large);
    return 0;
}
