/* A program that does to its memory what has broken page guards. Each trap fills memory that is much larger than
 * what a guard leaves unlocked, does one thing to it, and checks every byte; the last line of its output says how
 * many pages were right. The memory is of the heap, or as a second argument says: a mapping of its own (mmap), or
 * its static data (bss). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HEAP_PAGES
#define HEAP_PAGES 16384
#endif

enum { PAGE = 4096, PAGES = HEAP_PAGES };

static unsigned char *heap;

/* Added to every byte: a trap that changes it writes other content. */
static unsigned char turn;

static unsigned char at(size_t page, size_t byte) { return (unsigned char)(page * 31 + byte * 7 + (page >> 8) + turn); }

static void fill_page(size_t page) {
    for (size_t byte = 0; byte < PAGE; byte++) heap[page * PAGE + byte] = at(page, byte);
}

static unsigned char statics[(size_t)PAGES * PAGE] __attribute__((aligned(1 << 21)));

static void fill(const char *where) {
    size_t bytes = (size_t)PAGES * PAGE;
    if (!strcmp(where, "bss")) heap = statics;
    else if (!strcmp(where, "mmap")) heap = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else heap = aligned_alloc(PAGE, bytes);
    if (!heap || heap == MAP_FAILED) exit(3);
    for (size_t page = 0; page < PAGES; page++) fill_page(page);
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

static void system_calls(void) {
    int pipes[2], file = open("victim.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (pipe(pipes) || file < 0) exit(3);
    settle();
    for (size_t page = 0; page < PAGES; page += 97) {
        unsigned char *here = heap + page * PAGE, copy[PAGE];
        if (pwrite(file, here, PAGE, 0) != PAGE) exit(4);
        memset(copy, 0, PAGE);
        if (pread(file, copy, PAGE, 0) != PAGE || copy[5] != at(page, 5)) exit(5);
        if (pread(file, here, PAGE, 0) != PAGE) exit(6);
        if (write(pipes[1], here, 64) != 64 || read(pipes[0], here, 64) != 64) exit(7);
        struct iovec pieces[2] = {{here, 100}, {here + 2000, 100}};
        if (pwritev(file, pieces, 2, 8192) != 200 || preadv(file, pieces, 2, 8192) != 200) exit(8);
        size_t other = (page + 48) % PAGES;
        if (write(pipes[1], copy, 5) != 5 || ioctl(pipes[0], FIONREAD, heap + other * PAGE)) exit(9);
        if (*(int *)(heap + other * PAGE) != 5 || read(pipes[0], copy, 5) != 5) exit(10);
        fill_page(other);
    }
}

static void direct_io(void) {
    int file = open("victim.direct", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (file < 0) return; /* a file system that has none */
    settle();
    for (size_t page = 0; page < PAGES; page += 301) {
        unsigned char *here = heap + page * PAGE;
        if (pwrite(file, here, PAGE, 0) != PAGE) exit(4);
        memset(here, 0, PAGE);
        if (pread(file, here, PAGE, 0) != PAGE) exit(5);
    }
}

static void *visit(void *argument) {
    size_t first = (size_t)argument;
    unsigned char *own = malloc(10000);
    memset(own, (int)first, 10000);
    size_t wrong = 0;
    for (size_t page = first; page < PAGES; page += 200) wrong += !right(page);
    for (size_t byte = 0; byte < 10000; byte++) wrong += own[byte] != (unsigned char)first;
    free(own);
    return (void *)wrong;
}

static void threads(void) {
    settle();
    static pthread_t all[200];
    for (size_t i = 0; i < 200; i++)
        if (pthread_create(&all[i], NULL, visit, (void *)i)) exit(4);
    for (size_t i = 0; i < 200; i++) {
        void *wrong;
        if (pthread_join(all[i], &wrong) || wrong) exit(5);
    }
}

/* A process whose first thread is gone ends with its last one, as if that had called exit. */
static void says_that_it_ends(void) { _exit(42); }

static void last_thread(void) {
    settle();
    pid_t child = fork();
    if (child < 0) exit(4);
    if (child == 0) {
        pthread_t other;
        if (atexit(says_that_it_ends) || pthread_create(&other, NULL, visit, NULL)) _exit(5);
        pthread_exit(NULL);
    }
    int status;
    alarm(60);
    if (waitpid(child, &status, 0) != child || status != 42 << 8) exit(6);
}

/* A child sees all of the heap and changes it; the parent sees nothing of that, and a grandchild all. */
static void forks(void) {
    settle();
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        if (child < 0) exit(4);
        if (child == 0) {
            if (count_right() != PAGES) _exit(5);
            for (size_t page = 0; page < PAGES; page += 3) memset(heap + page * PAGE, 0xee, PAGE);
            settle();
            pid_t grandchild = fork();
            if (grandchild == 0) _exit(heap[0] == 0xee && right(1) ? 0 : 6);
            int status;
            waitpid(grandchild, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
        }
        for (size_t page = 0; page < PAGES; page += 5) fill_page(page);
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status)) exit(8);
        settle();
    }
}

static void executes(void) {
    settle();
    if (system("exit 9") != 9 << 8) exit(4);
    FILE *said = popen("echo from the child", "r");
    char line[64] = "";
    if (!said || !fgets(line, sizeof line, said) || strcmp(line, "from the child\n")) exit(5);
    pclose(said);
}

/* The program gives pages of its heap back to the kernel by itself: zeros are found there, and the rest is as it
 * was. */
static void gives_back(void) {
    settle();
    for (size_t page = 0; page < PAGES; page += 64) {
        if (madvise(heap + page * PAGE, 2 * PAGE, MADV_DONTNEED)) exit(4);
        if (heap[page * PAGE] != 0 || heap[(page + 1) * PAGE + 4095] != 0) exit(5);
        fill_page(page);
        fill_page(page + 1);
    }
}

/* What was only read for so long that a guard may count on it is written after all, page by page just after each was
 * read. */
static void writes_what_it_read(void) {
    settle();
    for (int round = 0; round < 3; round++) {
        for (int sweep = 0; sweep < 10; sweep++)
            for (size_t page = 0; page < PAGES; page++)
                if (heap[page * PAGE] != at(page, 0)) exit(4);
        for (size_t page = 0; page < PAGES; page++) {
            if (!right(page)) exit(5);
            turn++;
            fill_page(page);
            turn--;
        }
        turn++;
    }
}

static volatile sig_atomic_t handled;

static void handle(int signal) {
    (void)signal;
    handled += right((size_t)handled * 37 % PAGES);
}

static void signals(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL)) exit(4);
    settle();
    for (int i = 0; i < 500; i++) {
        if (i % 100 == 0) settle();
        if (kill(getpid(), SIGUSR1)) exit(5);
    }
    if (handled != 500) exit(6);
}

/* No file of the guard's is to be seen, and all files can be closed, as daemons do. */
static void closes_files(void) {
    settle();
    for (int file = 3; file < 1024; file++) {
        char name[32], target[64] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        if (readlink(name, target, sizeof target - 1) > 0 && (strstr(target, "userfaultfd") || strstr(target, "pagemap")))
            exit(4);
    }
    for (int file = 3; file < 1024; file++) close(file);
    pid_t child = fork();
    if (child == 0) _exit(count_right() == PAGES && fcntl(3, F_GETFD) < 0 ? 0 : 5);
    int status;
    if (waitpid(child, &status, 0) != child || status) exit(6);
    settle();
}

/* Three threads give pages back and fill them again while three others read and write the pages between them. */
static void *gives_back_and_fills(void *argument) {
    for (size_t page = 2 * (size_t)argument; page < PAGES; page += 6 * 4) {
        if (madvise(heap + page * PAGE, PAGE, MADV_DONTNEED)) exit(4);
        for (size_t byte = 0; byte < PAGE; byte += 512)
            if (heap[page * PAGE + byte]) exit(5);
        fill_page(page);
    }
    return NULL;
}

static void *reads_and_writes(void *argument) {
    for (size_t page = 2 * (size_t)argument + 1; page < PAGES; page += 6 * 4) {
        if (!right(page)) exit(6);
        fill_page(page);
    }
    return NULL;
}

static void races(void) {
    settle();
    pthread_t all[6];
    for (size_t i = 0; i < 6; i++)
        if (pthread_create(&all[i], NULL, i < 3 ? gives_back_and_fills : reads_and_writes, (void *)(i % 3))) exit(7);
    for (size_t i = 0; i < 6; i++)
        if (pthread_join(all[i], NULL)) exit(8);
}

/* The program changes what is mapped in its heap: protection are taken and given, pages locked into memory and let go,
 * and one moves away. */
static void remaps(void) {
    settle();
    for (size_t page = 0; page < PAGES; page += 1024) {
        unsigned char *here = heap + page * PAGE;
        if (mprotect(here, 3 * PAGE, PROT_READ) || !right(page + 1) || mprotect(here, 3 * PAGE, PROT_READ | PROT_WRITE)) exit(4);
        fill_page(page + 1);
        here += 300 * PAGE;
        if (mlock(here, PAGE) == 0 && (!right(page + 300) || munlock(here, PAGE))) exit(5);
        here += 300 * PAGE;
        unsigned char *there = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mremap(here, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there) != there || there[5] != at(page + 600, 5)) exit(6);
        if (mremap(there, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, here) != here) exit(7);
    }
}

/* Others look at memory that is locked: another process by process_vm_readv finds what is there; by /proc/PID/mem it
 * finds that or an error, and never zeros. */
static void looks(void) {
    settle();
    int pipes[2];
    pid_t own = getpid();
    if (pipe(pipes)) exit(3);
    int memory = open("/proc/self/mem", O_RDONLY);
    pid_t child = vfork();
    if (child == 0) {
        unsigned char copy[PAGE];
        struct iovec to = {copy, PAGE};
        for (size_t page = 0; page < PAGES; page += 101) {
            struct iovec from = {heap + page * PAGE, PAGE};
            if (process_vm_readv(own, &to, 1, &from, 1, 0) != PAGE || copy[7] != at(page, 7)) _exit(4);
        }
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) exit(5);
    settle();
    for (size_t page = 0; page < PAGES; page += 101) {
        unsigned char copy[PAGE];
        ssize_t got = pread(memory, copy, PAGE, (off_t)(uintptr_t)(heap + page * PAGE));
        if (got > 0 && copy[7] != at(page, 7)) exit(6);
    }
}

/* A child that shares all memory runs on the parent's heap before it executes another program. */
static void shares(void) {
    settle();
    for (int i = 0; i < 20; i++) {
        char *const arguments[] = {"true", NULL};
        pid_t child = vfork();
        if (child == 0) {
            if (!right((size_t)i * 777 % PAGES)) _exit(4);
            execvp("true", arguments);
            _exit(5);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) exit(6);
    }
}

/* A buffer that the kernel holds for io_uring (IORING_REGISTER_BUFFERS pins its pages) is written by it long
 * afterwards. */
static void fixed_buffers(void) {
    enum { COUNT = 64, APART = PAGES / 80 };
    static unsigned char content[PAGE];
    int file = open("victim.fixed", O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(content, 0x5a, PAGE);
    if (file < 0 || write(file, content, PAGE) != PAGE) exit(3);
    struct io_uring_params asked = {0};
    aio_context_t queue_of_requests = 0;
    if (syscall(SYS_io_setup, 1, &queue_of_requests)) fputs("without a queue\n", stderr);
    else syscall(SYS_io_destroy, queue_of_requests);
    int ring = (int)syscall(SYS_io_uring_setup, 8, &asked);
    if (ring < 0) { /* a kernel or a sandbox that has none */
        fputs("without a ring\n", stderr);
        return;
    }
    unsigned char *queue = mmap(NULL, asked.sq_off.array + asked.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, asked.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || entries == MAP_FAILED) exit(4);
    settle();
    struct iovec buffers[COUNT];
    for (size_t i = 0; i < COUNT; i++) buffers[i] = (struct iovec){heap + i * APART * PAGE, PAGE};
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, COUNT)) { /* too little may be locked */
        fputs("without a ring\n", stderr);
        return;
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t page = 0; page < PAGES; page += 40) right(page); /* time for the guard to lock what it can */
        unsigned tail = *(unsigned *)(queue + asked.sq_off.tail);
        memset(&entries[0], 0, sizeof entries[0]);
        entries[0] = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED, .fd = file, .addr = (uintptr_t)buffers[i].iov_base, .len = PAGE, .buf_index = (unsigned short)i};
        ((unsigned *)(queue + asked.sq_off.array))[tail & (asked.sq_entries - 1)] = 0;
        __atomic_store_n((unsigned *)(queue + asked.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) exit(5);
    }
    settle();
    for (size_t i = 0; i < COUNT; i++) {
        if (memcmp(heap + i * APART * PAGE, content, PAGE)) exit(6);
        fill_page(i * APART);
    }
    close(ring);
}

static sigjmp_buf back;
static volatile int own_faults;

static void jump(int signal, siginfo_t *info, void *context) {
    (void)context;
    own_faults += signal == SIGSEGV && info->si_addr != NULL && right((size_t)own_faults * 41 % PAGES);
    siglongjmp(back, 1);
}

static volatile int own_losses;

static void jump_on_loss(int signal, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    own_losses += signal == SIGBUS && right((size_t)own_losses * 41 % PAGES);
    siglongjmp(back, 1);
}

/* Pages that the program itself protects, in the heap and elsewhere: its handler gets their faults, works on locked
 * pages, and jumps out. A mask of every signal is set meanwhile, as libraries do. */
static void own_faults_are_its_own(void) {
    unsigned char *elsewhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *in_heap = heap + 100 * PAGE;
    struct sigaction action = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO}, set;
    sigset_t all, before;
    sigfillset(&action.sa_mask);
    sigfillset(&all);
    if (sigaction(SIGSEGV, &action, NULL) || sigaction(SIGSEGV, NULL, &set) || set.sa_sigaction != jump) exit(4);
    settle();
    if (mprotect(in_heap, PAGE, PROT_READ)) exit(5);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (count_right() != PAGES) exit(6);
    sigprocmask(SIG_SETMASK, &before, NULL);
    for (volatile int i = 0; i < 20; i++) {
        if (i % 5 == 0) settle();
        if (sigsetjmp(back, 1) == 0) *(volatile unsigned char *)(i % 2 ? in_heap : elsewhere) = 1;
    }
    if (own_faults != 20 || mprotect(in_heap, PAGE, PROT_READ | PROT_WRITE)) exit(7);
}

/* A page of a file that ends before it: the program's handler gets SIGBUS, and one that is sent to the process, too. */
static void own_losses_are_its_own(void) {
    int file = open("victim.short", O_RDWR | O_CREAT | O_TRUNC, 0600);
    unsigned char *beyond = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    struct sigaction action = {.sa_sigaction = jump_on_loss, .sa_flags = SA_SIGINFO}, set;
    if (file < 0 || beyond == MAP_FAILED) exit(3);
    if (sigaction(SIGBUS, &action, NULL) || sigaction(SIGBUS, NULL, &set) || set.sa_sigaction != jump_on_loss) exit(4);
    for (volatile int i = 0; i < 20; i++) {
        if (i % 5 == 0) settle();
        if (sigsetjmp(back, 1) == 0) {
            if (i % 2) kill(getpid(), SIGBUS);
            else exit(5 + *(volatile unsigned char *)beyond);
        }
    }
    if (own_losses != 20) exit(6);
}

static void waits(void) {
    for (int i = 0; i < 6; i++) settle();
}

static void dies(void) {
    settle();
    *(volatile unsigned char *)8 = 1;
}

static void reallocates(void) {
    settle();
    unsigned char *grown = realloc(heap, (size_t)2 * PAGES * PAGE);
    if (!grown) exit(4);
    heap = grown;
    settle();
    heap = realloc(heap, (size_t)PAGES * PAGE);
    for (int i = 0; i < 50; i++) {
        void *large = calloc(1, 8 << 20);
        unsigned char *bytes = large;
        for (size_t byte = 0; byte < 8 << 20; byte += 1000)
            if (bytes[byte]) exit(5);
        memset(large, 0xff, 8 << 20);
        free(large);
    }
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    static const struct { const char *name; void (*trap)(void); } traps[] = {
        {"system-calls", system_calls}, {"direct-io", direct_io}, {"threads", threads},       {"forks", forks},
        {"executes", executes},         {"gives-back", gives_back}, {"signals", signals},     {"reallocates", reallocates},
        {"closes-files", closes_files}, {"last-thread", last_thread}, {"races", races},       {"remaps", remaps},
        {"looks", looks},               {"shares", shares},           {"fixed-buffers", fixed_buffers},
        {"own-faults", own_faults_are_its_own}, {"own-losses", own_losses_are_its_own}, {"dies", dies}, {"waits", waits},
        {"writes-what-it-read", writes_what_it_read},
    };
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        if (strcmp(arguments[1], traps[i].name)) continue;
        fill(count > 2 ? arguments[2] : "heap");
        traps[i].trap();
        settle();
        printf("%d pages are right\n", count_right());
        return 0;
    }
    return 2;
}
