/* A program whose limits are lowered while it runs, by itself or from outside. It fills a heap that is much larger
 * than what a guard leaves unlocked; the last line of its output says how many pages were right. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* Everything that was used is locked by now, but for the last few MiB. */
static void settle(void) { usleep(300000); }

static void use_heap(void) {
    for (int round = 0; round < 3; round++) {
        settle();
        if (count_right() != PAGES) exit(4);
        for (size_t page = (size_t)round; page < PAGES; page += 3) fill_page(page);
    }
}

static void set(int resource, rlim_t soft, rlim_t hard) {
    struct rlimit limit = {soft, hard};
    if (setrlimit(resource, &limit)) exit(5);
}

static void files(rlim_t soft, rlim_t hard) {
    settle();
    set(RLIMIT_NOFILE, soft, hard);
    use_heap();
}

static void no_files(void) { files(0, 0); }
static void one_file(void) { files(1, 1); }
static void soft_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) exit(6);
    files(0, limit.rlim_max);
    set(RLIMIT_NOFILE, limit.rlim_max, limit.rlim_max);
    use_heap();
}

/* Another process lowers the limit. */
static void from_outside(void) {
    settle();
    pid_t child = vfork();
    if (child == 0) {
        static const struct rlimit none;
        _exit(prlimit(getppid(), RLIMIT_NOFILE, &none, NULL) ? 7 : 0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) exit(8);
    use_heap();
}

static void nothing(void) { use_heap(); }

/* All threads, those of a guard too, are refused to wait for files. */
static void no_poll(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ppoll, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pselect6, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog all = {sizeof program / sizeof *program, program};
    settle();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) exit(17);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all)) exit(18);
    use_heap();
}

/* Allocates until there is no more, as a program does that has a plan for it; then it gives back what it can and
 * goes on. */
static void allocates_all(void) {
    enum { PARTS = 4096 };
    static unsigned char *parts[PARTS];
    int had = 0;
    while (had < PARTS && (parts[had] = malloc(1 << 20))) {
        memset(parts[had], had, 1 << 20);
        had++;
    }
    if (had == PARTS || errno != ENOMEM) exit(9);
    fprintf(stderr, "had %d MiB more\n", had);
    use_heap();
    for (int i = 0; i < had; i++)
        for (size_t byte = 0; byte < 1 << 20; byte += 512)
            if (parts[i][byte] != (unsigned char)i) exit(10);
    while (had > 0) free(parts[--had]);
    for (int i = 0; i < 10; i++)
        if (!(parts[i] = malloc(1 << 20))) exit(11);
    use_heap();
}

/* 192 MiB more, in pieces. */
static void pieces(void) {
    static unsigned char *parts[48];
    for (int i = 0; i < 48; i++) {
        if (!(parts[i] = malloc(4 << 20))) exit(19);
        memset(parts[i], i, 4 << 20);
    }
    use_heap();
    for (int i = 0; i < 48; i++)
        for (size_t byte = 0; byte < 4 << 20; byte += 512)
            if (parts[i][byte] != (unsigned char)i) exit(20);
}

/* The limit comes down to what the process has. */
static void addresses(void) {
    long pages, other;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld %ld", &pages, &other) != 2) exit(12);
    fclose(statm);
    settle();
    set(RLIMIT_AS, (rlim_t)pages * PAGE + (8 << 20), RLIM_INFINITY);
    if (mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != ENOMEM) exit(13);
    use_heap();
}

/* A limit that cannot be read is refused and changes nothing; one in the heap is as good as any, also where its page
 * is locked. */
static void odd_places(int is_by_number) {
    const struct rlimit *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rlimit *kept = aligned_alloc(PAGE, PAGE);
    if (nowhere == MAP_FAILED || !kept) exit(25);
    errno = 0;
    int refused = is_by_number ? (int)syscall(SYS_prlimit64, 0, RLIMIT_DATA, nowhere, NULL) : setrlimit(RLIMIT_DATA, nowhere);
    if (refused != -1 || errno != EFAULT) exit(26);
    if (prlimit(0, RLIMIT_DATA, NULL, kept)) exit(27);
    settle();
    if (is_by_number ? syscall(SYS_prlimit64, 0, RLIMIT_DATA, kept, kept) : prlimit(0, RLIMIT_DATA, kept, kept)) exit(28);
    free(kept);
}

/* What the process has stays usable, by its children too; more data it may have or not. */
static void data_by(int is_by_number) {
    static const struct rlimit none;
    unsigned char *untouched = malloc(3 << 20);
    if (!untouched) exit(21);
    odd_places(is_by_number);
    settle();
    if (is_by_number ? syscall(SYS_prlimit64, 0, RLIMIT_DATA, &none, NULL) : setrlimit(RLIMIT_DATA, &none)) exit(22);
    use_heap();
    memset(untouched, 1, 3 << 20);
    free(untouched);
    unsigned char *more = malloc(64 << 20);
    if (!more && errno != ENOMEM) exit(23);
    if (more) memset(more, 1, 64 << 20);
    free(more);
    for (int made_by_fork = 0; made_by_fork < 2; made_by_fork++) {
        pid_t child = made_by_fork ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            memset(heap, 0, 3 * PAGE);
            for (size_t page = 0; page < 3; page++) fill_page(page);
            _exit(count_right() != PAGES);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status) exit(24);
    }
    use_heap();
}

static void data(void) { data_by(0); }
static void data_by_number(void) { data_by(1); }

/* The program makes as many mappings as it may have. */
static void mappings(void) {
    settle();
    unsigned char *all = mmap(NULL, (size_t)200000 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) exit(14);
    size_t made = 0;
    while (made < 200000 && mprotect(all + made * PAGE, PAGE, PROT_NONE) == 0) made += 2;
    if (made >= 200000 || errno != ENOMEM) exit(15);
    fprintf(stderr, "made %zu\n", made);
    use_heap();
    for (size_t i = 1; i < 40; i++) {
        unsigned char *own = malloc(i * 30000);
        if (own) memset(own, 1, i * 30000);
        free(own);
    }
    use_heap();
    if (munmap(all, (size_t)200000 * PAGE)) exit(16);
    use_heap();
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    static const struct { const char *name; void (*trap)(void); } traps[] = {
        {"nothing", nothing},           {"no-files", no_files},         {"one-file", one_file},
        {"soft-files", soft_files},     {"from-outside", from_outside}, {"allocates-all", allocates_all},
        {"data", data},                 {"data-by-number", data_by_number},
        {"addresses", addresses},       {"mappings", mappings},         {"no-poll", no_poll},         {"pieces", pieces},
    };
    alarm(120);
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        if (strcmp(arguments[1], traps[i].name)) continue;
        heap = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
        if (!heap) return 3;
        for (size_t page = 0; page < PAGES; page++) fill_page(page);
        traps[i].trap();
        printf("%d pages are right\n", count_right());
        return 0;
    }
    return 2;
}
