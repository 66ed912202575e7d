/* A garbage-collected heap on memory with failed lines, for runtimes in C: the library of crates/heap-c.
 *
 * An object has references, then bytes. A reference is an offset, 0 for none. Whatever allocates or collects may move
 * objects: from then on, only references that the roots or objects hold are right, and what rampart_heap_bytes returned
 * is not. One thread uses a heap at a time. A heap that is NULL is an error of the caller.
 */
#ifndef RAMPART_HEAP_H
#define RAMPART_HEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rampart_heap rampart_heap;
typedef uint32_t rampart_reference;

typedef struct {
    size_t pages;        /* the size, in pages of 4 KiB: at least 32 */
    double failed;       /* the share of lines of 64 B that have failed, simulated: 0 to 1 */
    uint64_t seed;       /* which lines these are */
    uint32_t line;       /* the size of lines in which memory is reused: 64, 128, 256, or 0 for the default */
    uint32_t stress;     /* a collection after so many allocations at most, to find errors; 0: when memory is out */
} rampart_heap_settings;

/* Visits a reference, and returns what it must be from now on. */
typedef rampart_reference (*rampart_visit)(void *visitor, rampart_reference reference);

/* Visits every reference that the program holds outside of the heap: root = visit(visitor, root). It must not call a
 * function of the heap. */
typedef void (*rampart_roots)(void *context, rampart_visit visit, void *visitor);

typedef enum {
    RAMPART_NURSERY = 0,    /* objects that came since the last collection */
    RAMPART_FULL = 1,       /* all objects */
    RAMPART_COMPACTING = 2  /* all, and as many as possible move */
} rampart_collection;

typedef enum {
    RAMPART_NOT_THERE = 0,  /* the heap has no page there, or only a borrowed one; it does nothing */
    RAMPART_KNOWN = 1,      /* the line was left out already */
    RAMPART_FREE = 2,       /* nothing was in it */
    RAMPART_REPLACED = 3,   /* a large object got another page */
    RAMPART_IN_USE = 4,     /* keep it readable and writable until the next full collection moves what is in it */
    RAMPART_LOST = 5        /* not returned by rampart_heap_fail_line */
} rampart_failure;

/* A heap; NULL if the settings are wrong or there is no memory. */
rampart_heap *rampart_heap_create(const rampart_heap_settings *settings, rampart_roots roots, void *context);
void rampart_heap_destroy(rampart_heap *heap);

/* A new object of zeros, after collections if need be. Returns 0 if there is no memory left, or if the object would be
 * too large: an object has fewer than 2^24 references, and at most 1 GiB. */
rampart_reference rampart_heap_allocate(rampart_heap *heap, uint32_t references, uint32_t bytes);

/* A reference of an object, by its number from 0; 0 if the object has none of that number. */
rampart_reference rampart_heap_load(const rampart_heap *heap, rampart_reference object, uint32_t number);
/* Stores a reference, with the write barrier; returns 0, or -1 if the object has none of that number. */
int rampart_heap_store(rampart_heap *heap, rampart_reference object, uint32_t number, rampart_reference value);
/* The bytes of an object behind its references, at a multiple of 4. */
void *rampart_heap_bytes(const rampart_heap *heap, rampart_reference object);

/* Keeps an object where it is (1), or lets it move again (0). */
void rampart_heap_pin(rampart_heap *heap, rampart_reference object, int is_pinned);

void rampart_heap_collect(rampart_heap *heap, rampart_collection kind);
/* How many collections there were. */
uint64_t rampart_heap_collections(const rampart_heap *heap);

/* The line at an offset has failed: it is left out. An object's reference is the offset of its first line. */
rampart_failure rampart_heap_fail_line(rampart_heap *heap, uint32_t offset);

/* Checks the whole heap: how many objects can be reached, or -1 if it is damaged. After RAMPART_IN_USE, objects may
 * stay on the failed line until the next full collection; until then, that counts as damage. */
int64_t rampart_heap_verify(const rampart_heap *heap);

#ifdef __cplusplus
}
#endif

#endif
