/* micro TEST COUNT: an operation of the kernel, so many times, after the tests of AIM9 [Panwar15, table 6.4] and with
   their names; mmap_test, map_test and signal_test are added. Files lie in /tmp. Prints a checksum of what was read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, MIB = 1 << 20, BLOCK = 1024, MESSAGE = 512, NAMES = 200 };

static uint64_t sum, state = 88172645463325252;
static char block[BLOCK];

static uint64_t dice(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void creat_clo(long count) {
    while (count--) {
        int file = creat("/tmp/created", 0600);
        must(file >= 0 && close(file) == 0, "creat");
    }
    must(unlink("/tmp/created") == 0, "unlink");
}

static void touch(volatile char *memory, long bytes) {
    for (long at = 0; at < bytes; at += PAGE) memory[at] = 1, sum += (uint64_t)memory[at];
}

static void page_test(long count) {
    while (count--) {
        char *memory = sbrk(MIB);
        must(memory != (char *)-1, "sbrk");
        touch(memory, MIB);
        must(sbrk(-MIB) != (char *)-1, "sbrk");
    }
}

static void brk_test(long count) {
    while (count--) {
        for (int step = 0; step < 16; step++) must(sbrk(MIB) != (char *)-1, "sbrk");
        must(sbrk(-16 * MIB) != (char *)-1, "sbrk");
    }
}

static void mmap_test(long count) {
    while (count--) {
        char *memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(memory != MAP_FAILED, "mmap");
        touch(memory, 4 * MIB);
        must(munmap(memory, 4 * MIB) == 0, "munmap");
    }
}

static void reap(pid_t child) {
    int status;
    must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "child");
}

static void fork_test(long count) {
    while (count--) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        reap(child);
    }
}

static void exec_test(long count) {
    while (count--) {
        pid_t child = fork();
        if (child == 0) execl("/proc/self/exe", "micro", "nothing", "0", (char *)NULL), _exit(1);
        reap(child);
    }
}

/* What exec_test starts: it ends at once, and prints nothing. */
static void nothing(long count) { _exit((int)count); }

static int new_file(long bytes) {
    int file = open("/tmp/blocks", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(file >= 0, "open");
    for (; bytes > 0; bytes -= BLOCK) must(write(file, block, BLOCK) == BLOCK, "write");
    return file;
}

static void link_test(long count) {
    close(new_file(0));
    while (count--) must(link("/tmp/blocks", "/tmp/linked") == 0 && unlink("/tmp/linked") == 0, "link");
}

static void map_test(long count) {
    int file = new_file(MIB);
    while (count--) {
        char *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        must(memory != MAP_FAILED, "mmap");
        touch(memory, MIB);
        must(munmap(memory, MIB) == 0, "munmap");
    }
}

static void disk_rr(long count) {
    int file = new_file(4 * MIB);
    while (count--) {
        must(pread(file, block, BLOCK, (off_t)(dice() % (4 * MIB / BLOCK)) * BLOCK) == BLOCK, "read");
        sum += (uint64_t)block[0];
    }
}

static void disk_rw(long count) {
    int file = new_file(4 * MIB);
    while (count--)
        must(pwrite(file, block, BLOCK, (off_t)(dice() % (4 * MIB / BLOCK)) * BLOCK) == BLOCK, "write");
}

static void disk_wrt(long count) {
    for (; count > 0; count -= 4 * MIB / BLOCK) close(new_file(4 * MIB));
}

static void disk_src(long count) {
    char name[64];
    struct stat known;
    mkdir("/tmp/searched", 0700);
    for (int each = 0; each < NAMES; each++) {
        snprintf(name, sizeof name, "/tmp/searched/%d", each);
        must(mkdir(name, 0700) == 0, "mkdir");
    }
    while (count--) {
        snprintf(name, sizeof name, "/tmp/searched/%d", (int)(dice() % (2 * NAMES)));
        sum += stat(name, &known) == 0;
    }
}

static void shared_memory(long count) {
    while (count--) {
        int segment = shmget(IPC_PRIVATE, 16 * PAGE, 0600);
        char *memory = shmat(segment, NULL, 0);
        must(segment >= 0 && memory != (char *)-1, "shm");
        touch(memory, 16 * PAGE);
        must(shmdt(memory) == 0 && shmctl(segment, IPC_RMID, NULL) == 0, "shmdt");
    }
}

static void pass(int from, int to, long count) {
    while (count--) {
        block[0] = (char)count;
        must(write(from, block, MESSAGE) == MESSAGE, "write");
        must(read(to, block, MESSAGE) == MESSAGE, "read");
        sum += (uint64_t)block[0];
    }
}

static struct sockaddr_in bound(int end) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    must(end >= 0 && bind(end, (struct sockaddr *)&address, length) == 0, "bind");
    must(getsockname(end, (struct sockaddr *)&address, &length) == 0, "getsockname");
    return address;
}

static void tcp_test(long count) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = bound(listener);
    must(listen(listener, 1) == 0 && connect(from, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    pass(from, accept(listener, NULL, NULL), count);
}

static void udp_test(long count) {
    int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = bound(to);
    must(connect(from, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    pass(from, to, count);
}

static void fifo_test(long count) {
    must(mkfifo("/tmp/fifo", 0600) == 0, "mkfifo");
    int end = open("/tmp/fifo", O_RDWR);
    pass(end, end, count);
    must(unlink("/tmp/fifo") == 0, "unlink");
}

static void pair_test(int kind, long count) {
    int ends[2];
    must(socketpair(AF_UNIX, kind, 0, ends) == 0, "socketpair");
    pass(ends[0], ends[1], count);
}

static void stream_pipe(long count) { pair_test(SOCK_STREAM, count); }

static void dgram_pipe(long count) { pair_test(SOCK_DGRAM, count); }

static void pipe_cpy(long count) {
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    pass(ends[1], ends[0], count);
}

static void caught(int number) { sum += (uint64_t)number; }

static void signal_test(long count) {
    signal(SIGUSR1, caught);
    while (count--) raise(SIGUSR1);
}

static const struct { const char *name; void (*run)(long); } TESTS[] = {
    {"creat-clo", creat_clo}, {"page_test", page_test}, {"brk_test", brk_test}, {"exec_test", exec_test},
    {"fork_test", fork_test}, {"link_test", link_test}, {"disk_rr", disk_rr}, {"disk_rw", disk_rw},
    {"disk_wrt", disk_wrt}, {"disk_src", disk_src}, {"shared_memory", shared_memory}, {"tcp_test", tcp_test},
    {"udp_test", udp_test}, {"fifo_test", fifo_test}, {"stream_pipe", stream_pipe}, {"dgram_pipe", dgram_pipe},
    {"pipe_cpy", pipe_cpy}, {"mmap_test", mmap_test}, {"map_test", map_test}, {"signal_test", signal_test},
    {"nothing", nothing},
};

int main(int count, char **arguments) {
    must(count == 3, "micro TEST COUNT");
    for (int each = 0; each < BLOCK; each++) block[each] = (char)each;
    for (size_t each = 0; each < sizeof TESTS / sizeof *TESTS; each++)
        if (!strcmp(TESTS[each].name, arguments[1])) {
            TESTS[each].run(atol(arguments[2]));
            printf("%llu\n", (unsigned long long)sum);
            return 0;
        }
    must(0, arguments[1]);
}
