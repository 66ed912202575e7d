/* Asks the library for the place of each kind of allocation; prints misplaced ones. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*owns)(const void *);
static int wrong;

static void inside(const char *what, const void *block) {
    if (!owns(block)) printf("outside: %s\n", what), wrong = 1;
}

static void outside(const char *what, const void *block) {
    if (owns(block)) printf("inside: %s\n", what), wrong = 1;
}

__attribute__((constructor)) static void early(void) {
    owns = (int (*)(const void *))dlsym(RTLD_DEFAULT, "rampart_guard_owns");
    inside("in a constructor", malloc(10));
}

static void late(void) { inside("in an exit handler", malloc(10)); }

/* Runs after the allocator's own destructor: allocations here may be outside. Prints their number. */
static pthread_key_t key;
static int late_and_outside;
static void destructor(void *rounds) {
    char *block = malloc(100);
    memset(block, 1, 100);
    if (!owns(block)) __atomic_add_fetch(&late_and_outside, 1, __ATOMIC_RELAXED);
    free(block);
    if ((size_t)rounds > 1) pthread_setspecific(key, (void *)((size_t)rounds - 1));
}

static void every_kind(void) {
    static const size_t sizes[] = {0, 1, 8, 100, 5000, 50000, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = malloc(sizes[i]);
        inside("malloc", block);
        block = realloc(block, 2 * sizes[i] + 1);
        inside("realloc", block);
        free(block);
        inside("calloc", block = calloc(1, sizes[i]));
        free(block);
    }
    void *block;
    inside("posix_memalign", posix_memalign(&block, 2 << 20, 100) ? NULL : block);
    inside("aligned_alloc", aligned_alloc(64, 640));
    inside("valloc", valloc(10));
    inside("strdup", strdup("text"));
    char *line = NULL;
    if (asprintf(&line, "%d", 7) > 0) inside("asprintf", line);
}

static void *thread(void *unused) {
    (void)unused;
    int on_the_stack = 0;
    outside("a thread's stack", &on_the_stack);
    pthread_setspecific(key, (void *)3);
    every_kind();
    return NULL;
}

int main(void) {
    char *large = malloc(300 << 20);
    inside("the end of a large block", large + (300 << 20) - 1);
    atexit(late);
    pthread_key_create(&key, destructor);
    for (int round = 0; round < 30; round++) {
        pthread_t ids[10];
        for (int i = 0; i < 10; i++) pthread_create(&ids[i], NULL, thread, NULL);
        for (int i = 0; i < 10; i++) pthread_join(ids[i], NULL);
    }
    every_kind();
    outside("the stack", &key);
    outside("a mapping", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (fork() == 0) {
        every_kind();
        _exit(wrong);
    }
    int status;
    wait(&status);
    if (status) printf("wrong in a child\n");
    if (malloc_trim(0) != 1) printf("nothing was trimmed\n");
    struct mallinfo2 info = mallinfo2();
    if (info.uordblks == 0 || info.uordblks > info.arena) printf("mallinfo2 is wrong\n");
    printf("late and outside: %d\n", late_and_outside);
    return wrong;
}
