/* A program that locks its memory in RAM, in every way, before and after it has filled a heap that is much larger
 * than what a guard leaves unlocked. The last line of its output says how many pages were right. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HEAP_PAGES
#define HEAP_PAGES 16384
#endif

enum { PAGE = 4096, PAGES = HEAP_PAGES };

static unsigned char *heap;

static unsigned char at(size_t page, size_t byte) { return (unsigned char)(page * 31 + byte * 7 + (page >> 8)); }

static void fill_page(size_t page) {
    for (size_t byte = 0; byte < PAGE; byte++) heap[page * PAGE + byte] = at(page, byte);
}

static int count_right(void) {
    int pages = 0;
    for (size_t page = 0; page < PAGES; page++) {
        size_t byte = 0;
        while (byte < PAGE && heap[page * PAGE + byte] == at(page, byte)) byte++;
        pages += byte == PAGE;
    }
    return pages;
}

static void fill(void) {
    heap = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
    if (!heap) exit(3);
    for (size_t page = 0; page < PAGES; page++) fill_page(page);
}

/* Everything that was used is locked by now, but for the last few MiB. */
static void settle(void) { usleep(300000); }

/* Goes through the heap, changes it, gives parts of it back and allocates more. */
static void use_heap(void) {
    for (int round = 0; round < 3; round++) {
        settle();
        if (count_right() != PAGES) exit(4);
        for (size_t page = (size_t)round; page < PAGES; page += 3) fill_page(page);
        for (size_t i = 1; i < 60; i++) {
            unsigned char *own = calloc(i, 50000);
            if (!own || own[i * 50000 - 1]) exit(5);
            memset(own, 1, i * 50000);
            free(own);
        }
    }
}

/* KiB of this process that are locked in RAM. */
static long locked(void) {
    char line[256];
    long all = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmLck: %ld", &all);
    if (status) fclose(status);
    return all;
}

static void lock_all(int flags) {
    if (mlockall(flags)) {
        perror("mlockall");
        exit(6);
    }
}

static void current(void) {
    fill();
    settle();
    lock_all(MCL_CURRENT);
    use_heap();
    if (locked() < 100) exit(7);
}

static void future(void) {
    lock_all(MCL_FUTURE);
    fill();
    use_heap();
}

static void both(void) {
    lock_all(MCL_CURRENT | MCL_FUTURE);
    fill();
    use_heap();
    lock_all(MCL_CURRENT | MCL_FUTURE);
    use_heap();
}

static void on_fault(void) {
    fill();
    lock_all(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
    use_heap();
}

static void unlocks(void) {
    fill();
    for (int round = 0; round < 3; round++) {
        lock_all(round ? MCL_CURRENT : MCL_CURRENT | MCL_FUTURE);
        use_heap();
        if (munlockall()) exit(8);
        if (locked() > 0) exit(9);
        use_heap();
    }
}

/* Pages are locked and let go by their addresses, before and after all is. */
static void parts(void) {
    fill();
    settle();
    for (size_t page = 0; page < PAGES; page += 1500) {
        if (mlock(heap + page * PAGE, 3 * PAGE) || mlock2(heap + (page + 600) * PAGE, PAGE, MLOCK_ONFAULT)) exit(10);
    }
    use_heap();
    lock_all(MCL_CURRENT);
    for (size_t page = 300; page < PAGES; page += 1500)
        if (munlock(heap + page * PAGE, 2 * PAGE)) exit(11);
    use_heap();
}

static volatile int stop;

static void *uses_pages(void *argument) {
    unsigned char *own = malloc(1);
    for (size_t page = (size_t)argument; !stop; page = (page + 997) % PAGES) {
        for (size_t byte = 0; byte < PAGE; byte += 64)
            if (heap[page * PAGE + byte] != at(page, byte)) exit(12);
        own = realloc(own, 1 + page * 30);
        own[page * 30] = 1;
    }
    free(own);
    return NULL;
}

/* Other threads use the heap, and allocate, while all is locked and let go. */
static void threads(void) {
    pthread_t all[4];
    fill();
    for (size_t i = 0; i < 4; i++)
        if (pthread_create(&all[i], NULL, uses_pages, (void *)i)) exit(13);
    for (int round = 0; round < 10; round++) {
        lock_all(round % 2 ? MCL_CURRENT : MCL_CURRENT | MCL_FUTURE);
        usleep(50000);
        if (munlockall()) exit(14);
        usleep(50000);
    }
    stop = 1;
    for (size_t i = 0; i < 4; i++)
        if (pthread_join(all[i], NULL)) exit(15);
}

/* A child inherits no lock. */
static void forks(void) {
    fill();
    lock_all(MCL_CURRENT | MCL_FUTURE);
    settle();
    for (int round = 0; round < 2; round++) {
        pid_t child = fork();
        if (child == 0) {
            if (locked() > 0) _exit(16);
            use_heap();
            lock_all(MCL_CURRENT);
            use_heap();
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) exit(17);
        use_heap();
    }
}

/* What may not be locked is not, as without a guard; a process that may lock only so much goes on. */
static void limited(void) {
    struct rlimit limit = {1 << 20, 1 << 20};
    fill();
    if (setrlimit(RLIMIT_MEMLOCK, &limit)) exit(18);
    if (geteuid() == 0 && setresuid(65534, 65534, 65534)) exit(19);
    if (mlockall(MCL_CURRENT) != -1 || errno != ENOMEM) exit(20);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != -1 || errno != ENOMEM) exit(21);
    if (mlockall(0) != -1 || errno != EINVAL || mlockall(1 << 20) != -1 || errno != EINVAL) exit(22);
    if (locked() > 0) exit(23);
    use_heap();
    limit.rlim_cur = limit.rlim_max = 0;
    if (setrlimit(RLIMIT_MEMLOCK, &limit)) exit(24);
    if (mlockall(MCL_CURRENT) != -1 || errno != EPERM) exit(25);
    use_heap();
}

/* The limit allows what a program has, and less than the addresses of a guard. */
static void room(void) {
    struct rlimit limit = {1 << 30, 1 << 30};
    if (geteuid() == 0) {
        if (setrlimit(RLIMIT_MEMLOCK, &limit)) limit.rlim_cur = 0; /* what root may do here */
        if (setresuid(65534, 65534, 65534)) exit(27);
    } else if (getrlimit(RLIMIT_MEMLOCK, &limit)) {
        exit(26);
    }
    if (limit.rlim_cur < 1 << 30) { /* too little may be locked here */
        fputs("without room\n", stderr);
        fill();
        use_heap();
        return;
    }
    fill();
    lock_all(MCL_CURRENT);
    use_heap();
    lock_all(MCL_CURRENT | MCL_FUTURE);
    use_heap();
    if (munlockall()) exit(28);
    use_heap();
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    static const struct { const char *name; void (*trap)(void); } traps[] = {
        {"current", current}, {"future", future},   {"both", both},       {"on-fault", on_fault}, {"unlocks", unlocks},
        {"parts", parts},     {"threads", threads}, {"forks", forks},     {"limited", limited},   {"room", room},
    };
    alarm(120);
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        if (strcmp(arguments[1], traps[i].name)) continue;
        traps[i].trap();
        printf("%d pages are right\n", count_right());
        return 0;
    }
    return 2;
}
