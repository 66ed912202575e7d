/* The heap, with zeros in it.
 *
 * Problem: programs send what they never wrote: the rest of a buffer, the gaps in a structure. In fresh memory that is
 * zero in all replicas. In memory that was used before, it is what the MPI or the program left there, and the MPI does
 * not do the same in all replicas. Idea: used memory is zeroed when it is allocated again. Why this way: large pieces
 * come fresh from the kernel, and are left alone, so that the program's own first touch still places them on a node;
 * of small ones the cost is small.
 *
 * All functions of a heap are here, so that none meets a piece of another heap: the memory is that of the C library. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "spare_heap.h"

/* The functions of the C library under its own names: to look them up would allocate. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void *__libc_valloc(size_t size);
extern void *__libc_pvalloc(size_t size);
extern void __libc_free(void *piece);

/* The word before a piece: its size with these words, and bits; one says that it is a mapping of its own [glibc,
 * malloc/malloc.c: size_chunk, IS_MMAPPED]. */
#define BITS 7
#define IS_MAPPING 2

/* The alignment of valloc() in a heap that is used for a short time. */
#define PAGE 4096

static size_t word_before(const void *piece)
{
    return ((const size_t *)piece)[-1];
}

size_t malloc_usable_size(void *piece)
{
    if (!piece)
        return 0;
    size_t word = word_before(piece), size = word & ~(size_t)BITS;
    return size - (word & IS_MAPPING ? 2 : 1) * sizeof(size_t);
}

static void *zeroed(void *piece, size_t from)
{
    if (piece && !(word_before(piece) & IS_MAPPING)) {
        size_t room = malloc_usable_size(piece);
        if (from < room)
            memset((char *)piece + from, 0, room - from);
    }
    return piece;
}

void *malloc_as_it_is(size_t size)
{
    return uses_spare_heap() ? spare_alloc(1, size) : __libc_malloc(size);
}

void *malloc(size_t size)
{
    return uses_spare_heap() ? spare_alloc(1, size) : zeroed(__libc_malloc(size), 0);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!uses_spare_heap())
        return __libc_calloc(count, size);
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : spare_alloc(1, bytes);
}

/* The old piece may be one of the heap that is left, and its size may be damaged. */
static void *realloc_in_spare_heap(void *old, size_t kept, size_t size)
{
    void *piece = spare_alloc(1, size);
    if (piece && old) {
        memcpy(piece, old, kept < size ? kept : size);
        spare_free(old);
    }
    return piece;
}

void *realloc(void *old, size_t size)
{
    size_t kept = malloc_usable_size(old);
    return uses_spare_heap() ? realloc_in_spare_heap(old, kept, size) : zeroed(__libc_realloc(old, size), kept);
}

void free(void *piece)
{
    if (uses_spare_heap())
        spare_free(piece);
    else
        __libc_free(piece);
}

void *memalign(size_t alignment, size_t size)
{
    return uses_spare_heap() ? spare_alloc(alignment, size) : zeroed(__libc_memalign(alignment, size), 0);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **place, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
        return EINVAL;
    void *piece = memalign(alignment, size);
    if (!piece)
        return ENOMEM;
    *place = piece;
    return 0;
}

void *valloc(size_t size)
{
    return uses_spare_heap() ? spare_alloc(PAGE, size) : zeroed(__libc_valloc(size), 0);
}

void *pvalloc(size_t size)
{
    return uses_spare_heap() ? spare_alloc(PAGE, size) : zeroed(__libc_pvalloc(size), 0);
}
