/* registered small|huge MIB: registers a buffer of so many MiB with io_uring, of pages of 4 KiB, or of 2 MiB as far as
   the kernel gives them. This pins the pages for as long as this runs: the kernel first moves them to where its own
   memory may lie. Says so with a line on standard output, then sleeps. */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096 };

int main(int count, char **arguments) {
    must(count == 3, "registered small|huge MIB");
    int huge = strcmp(arguments[1], "huge") == 0;
    size_t size = strtoul(arguments[2], NULL, 10) << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    must(madvise(memory, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0, "madvise");
    for (size_t at = 0; at < size; at += PAGE) memory[at] = 1;
    struct io_uring_params parameters = {0};
    long ring = syscall(SYS_io_uring_setup, 4, &parameters);
    must(ring >= 0, "io_uring_setup");
    struct iovec buffer = {memory, size};
    must(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1) == 0, "io_uring_register");
    must(puts("registered") >= 0 && fflush(stdout) == 0, "puts");
    for (;;) pause();
}
