/* See spare_heap.h. */
#include "spare_heap.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Addresses only: pages are used as pieces are. */
#define SPARE_BYTES (UINT64_C(1) << 36)

#define SMALLEST_CLASS 6
#define CLASSES 36

/* Before each piece. The last word is where malloc_usable_size() looks for the size, itself included. */
struct head {
    uint32_t class, offset; /* of the piece in its block, whose size is two to the power of its class */
    size_t size;
};
_Static_assert(sizeof(struct head) == 16, "pieces are aligned as malloc's");

/* A block that is free begins with the address of the next one. */
static struct {
    atomic_flag lock;
    char *begin;
    uint64_t used;
    void *blocks[CLASSES];
} spare = { .lock = ATOMIC_FLAG_INIT };

atomic_bool spare_heap_is_used;

bool begin_spare_heap(void)
{
    void *room = mmap(NULL, SPARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return false;
    spare.begin = room;
    atomic_store(&spare_heap_is_used, true);
    return true;
}

static void lock(void)
{
    while (atomic_flag_test_and_set(&spare.lock))
        ;
}

static void unlock(void)
{
    atomic_flag_clear(&spare.lock);
}

static char *take_block(uint32_t class)
{
    char *block = NULL;
    uint64_t bytes = UINT64_C(1) << class;
    lock();
    if (spare.blocks[class]) {
        block = spare.blocks[class];
        memcpy(&spare.blocks[class], block, sizeof(void *));
    } else if (spare.used + bytes <= SPARE_BYTES) {
        block = spare.begin + spare.used;
        spare.used += bytes;
    }
    unlock();
    return block;
}

void *spare_alloc(size_t alignment, size_t size)
{
    alignment = alignment < sizeof(struct head) ? sizeof(struct head) : alignment;
    if (alignment > SPARE_BYTES / 4 || size > SPARE_BYTES / 4)
        return NULL;
    uint32_t class = SMALLEST_CLASS;
    while (UINT64_C(1) << class < sizeof(struct head) + alignment + size)
        class++;
    char *block = class < CLASSES ? take_block(class) : NULL;
    if (!block)
        return NULL;
    char *piece = (char *)(((uintptr_t)block + sizeof(struct head) + alignment - 1) & ~(uintptr_t)(alignment - 1));
    size_t room = (size_t)(block + (UINT64_C(1) << class) - piece);
    ((struct head *)piece)[-1] = (struct head){ class, (uint32_t)(piece - block), room + sizeof(size_t) };
    return memset(piece, 0, size);
}

void spare_free(void *piece)
{
    if ((uintptr_t)piece - (uintptr_t)spare.begin >= SPARE_BYTES)
        return;
    struct head head = ((struct head *)piece)[-1];
    char *block = (char *)piece - head.offset;
    lock();
    memcpy(block, &spare.blocks[head.class], sizeof(void *));
    spare.blocks[head.class] = block;
    unlock();
}
