/* sharers THREADS MIB: so many threads share so much memory, and use all of it again and again until SIGTERM: each
   writes its own word of every page for about 5 ms, and then sleeps as long, so that the machine is about half
   idle with as many threads as CPUs. At the end it says how many words were not as they were written, and ends
   with 4 if any. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t), MOST = 64 };

static volatile sig_atomic_t ended;
static volatile uint64_t *memory;
static size_t pages;
static uint64_t wrong;

static void end(int signal) {
    (void)signal;
    ended = 1;
}

static uint64_t milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void *use(void *number) {
    size_t word = (size_t)number, page = 0;
    uint64_t round = 0, until = milliseconds() + 5;
    while (!ended) {
        for (size_t count = 0; count < 64; count++) {
            uint64_t was = memory[page * WORDS + word];
            if (was != round) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
            memory[page * WORDS + word] = round + 1;
            if (++page == pages) page = 0, round++;
        }
        if (milliseconds() < until) continue;
        usleep(5000);
        until = milliseconds() + 5;
    }
    return NULL;
}

int main(int count, char **arguments) {
    pthread_t threads[MOST];
    must(count == 3, "sharers THREADS MIB");
    size_t number = strtoul(arguments[1], NULL, 10);
    pages = strtoull(arguments[2], NULL, 10) * 256;
    must(number >= 1 && number <= MOST && pages >= 64, "1 to 64 threads, and some memory");
    void *all = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(all != MAP_FAILED && madvise(all, pages * PAGE, MADV_NOHUGEPAGE) == 0, "mmap");
    memset(all, 0, pages * PAGE);
    memory = all;
    signal(SIGTERM, end);
    for (size_t i = 0; i < number; i++) must(!pthread_create(&threads[i], NULL, use, (void *)i), "pthread_create");
    for (size_t i = 0; i < number; i++) pthread_join(threads[i], NULL);
    printf("%lu words wrong\n", wrong);
    return wrong == 0 ? 0 : 4;
}
