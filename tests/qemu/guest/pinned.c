/* pinned: keeps single pages all over 512 MiB in use by pipes (vmsplice), so that the kernel can neither move nor free
   them, though they look movable. Says so with a line on standard output, then sleeps. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, APART = 64, PIPES = 8, SLOTS = 256 };

int main(void) {
    size_t size = (size_t)PAGE * APART * PIPES * SLOTS;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    must(madvise(memory, size, MADV_NOHUGEPAGE) == 0, "madvise");
    for (size_t at = 0; at < size; at += PAGE) memory[at] = 1;
    for (int number = 0; number < PIPES; number++) {
        int ends[2];
        must(pipe(ends) == 0, "pipe");
        must(fcntl(ends[1], F_SETPIPE_SZ, SLOTS * PAGE) >= 0, "F_SETPIPE_SZ");
        for (int slot = 0; slot < SLOTS; slot++) {
            struct iovec page = {memory + (size_t)(number * SLOTS + slot) * APART * PAGE, PAGE};
            must(vmsplice(ends[1], &page, 1, SPLICE_F_NONBLOCK) == PAGE, "vmsplice");
        }
    }
    must(munmap(memory, size) == 0, "munmap");
    must(puts("pinned") >= 0 && fflush(stdout) == 0, "puts");
    for (;;) pause();
}
