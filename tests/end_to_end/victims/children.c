/* A program that makes children in every way that Linux has. A child checks all of the heap, which is much larger
 * than what a guard leaves unlocked, and changes it; the parent sees nothing of that. The last line of the output
 * says how many pages were right. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HEAP_PAGES
#define HEAP_PAGES 16384
#endif

enum { PAGE = 4096, PAGES = HEAP_PAGES, STACK = 1 << 16 };

extern char **environ;
extern pid_t _Fork(void);

static unsigned char *heap;

static unsigned char at(size_t page, size_t byte) { return (unsigned char)(page * 31 + byte * 7 + (page >> 8)); }

static void fill_page(size_t page) {
    for (size_t byte = 0; byte < PAGE; byte++) heap[page * PAGE + byte] = at(page, byte);
}

static int right(size_t page) {
    for (size_t byte = 0; byte < PAGE; byte++)
        if (heap[page * PAGE + byte] != at(page, byte)) return 0;
    return 1;
}

static int count_right(void) {
    int pages = 0;
    for (size_t page = 0; page < PAGES; page++) pages += right(page);
    return pages;
}

/* Everything that was used is locked by now, but for the last few MiB. */
static void settle(void) { usleep(200000); }

/* What a child does with the heap: all of it is there, can be written, and more can be had. */
static int uses_the_heap(void) {
    if (count_right() != PAGES) return 5;
    for (size_t page = 0; page < PAGES; page += 3) memset(heap + page * PAGE, 0xee, PAGE);
    for (size_t i = 1; i < 200; i++) {
        unsigned char *own = calloc(i, 5000);
        if (!own || own[i * 5000 - 1]) return 6;
        memset(own, 1, i * 5000);
        free(own);
    }
    return 0;
}

static void wait_for(pid_t child, int expected) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) exit(7);
    if (status != expected) {
        fprintf(stderr, "a child ended with status %#x\n", status);
        exit(8);
    }
}

/* Ways to make a child that has a copy of everything and goes on where its parent does. */
static pid_t by_libc_clone3(void) {
    struct clone_args asked = {.exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &asked, sizeof asked);
}

static pid_t by_raw_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

#ifdef SYS_fork
static pid_t by_raw_fork(void) { return (pid_t)syscall(SYS_fork); }
#else
static pid_t by_raw_fork(void) { return by_raw_clone(); }
#endif

/* No library sees this one. */
static pid_t by_instruction(void) {
#ifdef __x86_64__
    long made;
    register long c __asm__("r10") = 0;
    register long d __asm__("r8") = 0;
    __asm__ volatile("syscall" : "=a"(made) : "a"(SYS_clone), "D"(SIGCHLD), "S"(0), "d"(0), "r"(c), "r"(d) : "rcx", "r11", "memory");
    return (pid_t)made;
#else
    register long number __asm__("x8") = SYS_clone, made __asm__("x0") = SIGCHLD, a __asm__("x1") = 0, b __asm__("x2") = 0,
                  c __asm__("x3") = 0, d __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(made) : "r"(number), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
    return (pid_t)made;
#endif
}

static pid_t (*way)(void);

static void copies(void) {
    for (int round = 0; round < 2; round++) {
        settle();
        pid_t child = way();
        if (child == 0) _exit(uses_the_heap());
        for (size_t page = 0; page < PAGES; page += 5) fill_page(page);
        wait_for(child, 0);
    }
}

/* A child makes one in each of the other ways, and that one another. */
static void grandchildren(void) {
    static pid_t (*const ways[])(void) = {fork, _Fork, by_raw_clone, by_libc_clone3, by_raw_fork};
    for (size_t i = 0; i < 5; i++) {
        settle();
        pid_t child = ways[i]();
        if (child == 0) {
            for (size_t j = 0; j < 5; j++) {
                pid_t grandchild = ways[(i + j) % 5]();
                if (grandchild == 0) {
                    pid_t third = ways[j]();
                    if (third == 0) _exit(uses_the_heap());
                    wait_for(third, 0);
                    _exit(uses_the_heap());
                }
                wait_for(grandchild, 0);
            }
            _exit(uses_the_heap());
        }
        wait_for(child, 0);
    }
}

static int begins(void *argument) { return argument == heap ? uses_the_heap() : 9; }

/* clone(3) begins a child in a function, on a stack of its own. */
static void clones(void) {
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) exit(3);
    settle();
    wait_for(clone(begins, stack + STACK, SIGCHLD, heap), 0);
    settle();
    pid_t noted = 0;
    pid_t child = clone(begins, stack + STACK, CLONE_PARENT_SETTID | SIGCHLD, heap, &noted);
    if (noted != child) exit(10);
    wait_for(child, 0);
}

static volatile int stop;

static void *uses_pages(void *argument) {
    unsigned char *own = malloc(1);
    for (size_t page = (size_t)argument; !stop; page = (page + 997) % PAGES) {
        if (!right(page)) exit(11);
        own = realloc(own, 1 + page * 3);
    }
    free(own);
    return NULL;
}

/* Other threads use the heap, and allocate, while children are made; these find all of it as it was. */
static void threads(void) {
    static pid_t (*const ways[])(void) = {fork, _Fork, by_raw_clone, by_libc_clone3};
    pthread_t all[4];
    settle();
    for (size_t i = 0; i < 4; i++)
        if (pthread_create(&all[i], NULL, uses_pages, (void *)i)) exit(4);
    for (int round = 0; round < 8; round++) {
        pid_t child = ways[round % 4]();
        if (child == 0) _exit(count_right() == PAGES ? 0 : 5); /* malloc may be in use by a thread that is not here */
        wait_for(child, 0);
    }
    stop = 1;
    for (size_t i = 0; i < 4; i++)
        if (pthread_join(all[i], NULL)) exit(6);
}

/* A child that borrows the memory runs another program; so do children that have a copy. */
static void runs_others(void) {
    char *const arguments[] = {strdup("sh"), strdup("-c"), strdup("exit 9"), NULL};
    settle();
    pid_t child = vfork();
    if (child == 0) {
        execvp(arguments[0], arguments);
        _exit(4);
    }
    wait_for(child, 9 << 8);
    settle();
    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ)) exit(5);
    wait_for(child, 9 << 8);
    settle();
    child = _Fork();
    if (child == 0) {
        execvp(arguments[0], arguments);
        _exit(4);
    }
    wait_for(child, 9 << 8);
    settle();
    child = by_raw_clone();
    if (child == 0) {
        execvp(arguments[0], arguments);
        _exit(4);
    }
    wait_for(child, 9 << 8);
}

/* A child may end as any program does, with what is done at exit. */
static void ends(void) {
    settle();
    pid_t child = way();
    if (child == 0) exit(3);
    wait_for(child, 3 << 8);
}

static volatile pid_t made_by_handler = -1;

static void makes_one(int signal) {
    (void)signal;
    pid_t child = _Fork();
    if (child == 0) _exit(count_right() == PAGES ? 0 : 5);
    made_by_handler = child;
}

/* A signal handler may call _Fork, whatever it interrupts. */
static void handlers(void) {
    struct sigaction action = {.sa_handler = makes_one};
    if (sigaction(SIGALRM, &action, NULL)) exit(3);
    for (int round = 0; round < 5; round++) {
        settle();
        made_by_handler = -1;
        ualarm(1000 + (useconds_t)round * 700, 0);
        void *volatile own = NULL;
        while (made_by_handler < 0) {
            free(own);
            own = malloc(100000);
            *(volatile char *)own = 1;
        }
        free(own);
        wait_for(made_by_handler, 0);
    }
}

/* A child that no library sees being made has the heap, or ends by a signal; it never finds anything else there. */
static void unseen(void) {
    settle();
    pid_t child = by_instruction();
    if (child == 0) _exit(uses_the_heap());
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) exit(4);
    if (status != 0 && !WIFSIGNALED(status)) exit(5);
    fputs(status ? "ended by a signal\n" : "has the heap\n", stderr);
    child = by_instruction();
    if (child == 0) {
        char *const arguments[] = {"sh", "-c", "exit 9", NULL}, *const none[] = {NULL};
        execve("/bin/sh", arguments, none);
        _exit(4);
    }
    wait_for(child, 9 << 8);
    /* It gives back what it does not have, and ends as any program does. */
    child = by_instruction();
    if (child == 0) {
        madvise(heap, PAGE, MADV_DONTNEED);
        exit(3);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) exit(6);
    if (status != 3 << 8 && !WIFSIGNALED(status)) exit(7);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    static const struct { const char *name; pid_t (*way)(void); void (*trap)(void); } traps[] = {
        {"_Fork", _Fork, copies},           {"clone", by_raw_clone, copies},  {"clone3", by_libc_clone3, copies},
        {"raw-fork", by_raw_fork, copies},  {"clones", NULL, clones},         {"grandchildren", NULL, grandchildren},
        {"threads", NULL, threads},         {"runs-others", NULL, runs_others}, {"handlers", NULL, handlers},
        {"_Fork-exit", _Fork, ends},        {"clone-exit", by_raw_clone, ends}, {"unseen", NULL, unseen},
    };
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        if (strcmp(arguments[1], traps[i].name)) continue;
        heap = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
        if (!heap) return 3;
        for (size_t page = 0; page < PAGES; page++) fill_page(page);
        alarm(strcmp(arguments[1], "handlers") ? 120 : 0);
        way = traps[i].way;
        traps[i].trap();
        settle();
        printf("%d pages are right\n", count_right());
        return 0;
    }
    return 2;
}
