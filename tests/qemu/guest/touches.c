/* touches small|huge|bulk MIB: takes so much memory once, writes to all of it, sees that it is zero but for that, and
   ends: in pages of 4 KiB, in pages of 2 MiB, or (without a look) in the kernel's own single pages by its bulk
   allocator (the array of a BPF map). */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096 };
static const size_t HUGE = 2 << 20;

static void touch(size_t size, int advice) {
    char *memory = mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    memory += -(uintptr_t)memory % HUGE;
    must(madvise(memory, size, advice) == 0, "madvise");
    for (size_t at = 0; at < size; at += PAGE) {
        /* A page that is read first would be the one page of zeros that all programs share. */
        memory[at + PAGE - 1] = 1;
        for (size_t word = at; word < at + PAGE - sizeof(uint64_t); word += sizeof(uint64_t))
            must(*(uint64_t *)(memory + word) == 0, "new memory is not zero");
    }
}

static void take_in_bulk(size_t size) {
    union bpf_attr map;
    memset(&map, 0, sizeof(map));
    map.map_type = BPF_MAP_TYPE_ARRAY;
    map.key_size = sizeof(__u32);
    map.value_size = PAGE;
    map.max_entries = size / PAGE;
    must(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)) >= 0, "BPF_MAP_CREATE");
}

int main(int count, char **words) {
    must(count == 3, "touches small|huge|bulk MIB");
    size_t size = (size_t)atoi(words[2]) << 20;
    if (!strcmp(words[1], "bulk")) take_in_bulk(size);
    else touch(size, !strcmp(words[1], "huge") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return 0;
}
