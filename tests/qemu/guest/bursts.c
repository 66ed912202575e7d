/* bursts KIND RATE TOTAL: takes TOTAL MiB of memory at RATE MiB a second, holds it until it has all of it, then gives
   it back. What it takes knows nothing of what watches the machine's memory. KIND:

     program   memory of a program
     files     names and inodes of empty files below /tmp
     pipes     buffers of pipes
     sockets   messages that wait in sockets
     tables    page tables, of ranges in which nothing but the frame of zeros is mapped

   All but the first is memory of the kernel. Prints "SECONDS LATE": how long it took, and by how many milliseconds it
   was behind its rate at most. Exit code 0 if it got everything, 1 if the kernel refused something. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "must.h"

enum { KIB = 1024, MIB = 1024 * KIB, PIPE = MIB, MESSAGE = 64 * KIB, TABLE_SPAN = 2 * MIB };
enum { TABLE = 4 * KIB, STEP = 256 * KIB };
/* What slub takes for an inode of tmpfs and its name, as /proc/slabinfo shows it on Debian's kernels. */
enum { INODE = 736, NAME = 192, FOLDER = 5000 };

static char content[MESSAGE];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Each takes at least so many bytes, and returns how many it took. */

static long program(long bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    for (long at = 0; at < bytes; at += 4 * KIB) memory[at] = 1;
    return bytes;
}

static long files(long bytes) {
    static long names;
    char path[64];
    long taken = 0;
    for (; taken < bytes; taken += INODE + NAME, names++) {
        if (names % FOLDER == 0) {
            snprintf(path, sizeof path, "/tmp/burst/%ld", names / FOLDER);
            must(mkdir(path, 0755) == 0, "mkdir");
        }
        snprintf(path, sizeof path, "/tmp/burst/%ld/%ld", names / FOLDER, names);
        int file = open(path, O_CREAT | O_WRONLY, 0644);
        must(file >= 0, "open");
        close(file);
    }
    return taken;
}

static long pipes(long bytes) {
    long taken = 0;
    while (taken < bytes) {
        static long left;
        static int ends[2];
        if (left == 0) {
            must(pipe2(ends, O_NONBLOCK) == 0, "pipe");
            left = fcntl(ends[1], F_SETPIPE_SZ, PIPE);
            must(left > 0, "F_SETPIPE_SZ");
        }
        long wanted = left < MESSAGE ? left : MESSAGE;
        must(write(ends[1], content, wanted) == wanted, "write to a pipe");
        left -= wanted;
        taken += wanted;
    }
    return taken;
}

static long sockets(long bytes) {
    static int ends[2], left;
    long taken = 0;
    while (taken < bytes) {
        if (left == 0) {
            int size = 8 * MIB;
            must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
            must(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) == 0, "SO_SNDBUFFORCE");
            left = 128;
        }
        must(send(ends[0], content, MESSAGE, 0) == MESSAGE, "send");
        left--;
        taken += MESSAGE;
    }
    return taken;
}

static long tables(long bytes) {
    long count = (bytes + TABLE - 1) / TABLE;
    char *memory = mmap(NULL, count * TABLE_SPAN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    must(madvise(memory, count * TABLE_SPAN, MADV_NOHUGEPAGE) == 0, "madvise");
    for (long table = 0; table < count; table++) {
        volatile char byte = memory[table * TABLE_SPAN];
        (void)byte;
    }
    return count * TABLE;
}

static const struct { const char *name; long (*take)(long bytes); } kinds[] = {
    {"program", program}, {"files", files}, {"pipes", pipes}, {"sockets", sockets}, {"tables", tables}};

int main(int count, char **arguments) {
    must(count == 4, "bursts KIND RATE TOTAL");
    long (*take)(long) = NULL;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (strcmp(kinds[kind].name, arguments[1]) == 0) take = kinds[kind].take;
    must(take != NULL, "no such kind");
    double rate = atof(arguments[2]) * MIB, late = 0, began = now();
    long total = atol(arguments[3]) * MIB, taken = 0;
    mkdir("/tmp/burst", 0755);
    while (taken < total) {
        taken += take(STEP);
        double behind = now() - began - (double)taken / rate;
        if (behind > late) late = behind;
        if (behind < 0) usleep((useconds_t)(-behind * 1e6));
    }
    printf("%.3f %.0f\n", now() - began, late * 1000);
    return 0;
}
