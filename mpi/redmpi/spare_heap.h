/* The heap of a process that has crashed.
 *
 * Problem: such a process must let the MPI go on (leaving.h), which allocates; but its heap may be damaged, and the
 * thread that crashed may hold a lock of it. Idea: from then on all memory comes from a mapping of its own, and what
 * was allocated before is never freed. Why this way: it needs nothing of the old heap, and the process computes nothing
 * any more. Pieces have powers of two as their sizes, and those that are freed are used again, since the MPI allocates
 * for as long as the job goes on. */
#ifndef RAMPART_SPARE_HEAP_H
#define RAMPART_SPARE_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

extern atomic_bool spare_heap_is_used;

/* Whether the process has crashed. heap.c then calls the functions below in place of those of the C library. */
static inline bool uses_spare_heap(void)
{
    return __builtin_expect(atomic_load_explicit(&spare_heap_is_used, memory_order_relaxed), 0);
}

/* From now on. False if the kernel has no room for it. */
bool begin_spare_heap(void);

/* A piece with zeros; null if there is no more memory. The alignment is a power of two. */
void *spare_alloc(size_t alignment, size_t size);

/* Also a piece of the old heap, which stays as it is. */
void spare_free(void *piece);

#endif
