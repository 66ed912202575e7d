/* MPI_Alloc_mem.
 *
 * Problem: programs with dynamic windows send addresses of what they have allocated. The MPI allocates from the same
 * heap, not the same in all replicas, so that these addresses would differ. Idea: memory of MPI_Alloc_mem comes from a
 * part of the address space that nobody else uses. Why this way: all replicas allocate the same there, in the same
 * order, so that pieces lie at the same addresses, however the MPI and the C library allocate theirs. What is free is
 * all zeros, as it is in the heap. */
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "fortran.h"
#include "teams.h"

/* Where it begins and its size; memory is used as pieces are. */
#define PLACE ((void *)UINT64_C(0x200000000000))
#define ROOM (UINT64_C(1) << 40)

#define PAGE UINT64_C(4096)

/* A piece, behind which its memory is. Pieces fill the room, in the order of their addresses. */
struct piece {
    struct piece *next; /* null: the last one */
    size_t size;        /* with this head */
    bool is_taken;
    _Alignas(64) char memory[];
};

static struct piece *first;

static bool reserve(void)
{
    static bool was_tried;
    if (was_tried)
        return first != NULL;
    was_tried = true;
    void *room = mmap(PLACE, ROOM, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (room != PLACE)
        return false;
    first = room;
    *first = (struct piece){ .size = ROOM };
    return true;
}

/* What is left of a piece becomes one of its own. */
static void split(struct piece *piece, size_t size)
{
    if (piece->size - size < 2 * sizeof *piece)
        return;
    struct piece *rest = (struct piece *)((char *)piece + size);
    *rest = (struct piece){ .next = piece->next, .size = piece->size - size };
    piece->next = rest;
    piece->size = size;
}

static void *take(size_t bytes)
{
    size_t size = (sizeof *first + bytes + 63) / 64 * 64;
    struct piece *piece = first;
    while (piece && (piece->is_taken || piece->size < size))
        piece = piece->next;
    if (!piece)
        return NULL;
    split(piece, size);
    piece->is_taken = true;
    return piece->memory;
}

/* Whole pages go back to the kernel. */
static void clear(char *memory, size_t bytes)
{
    char *end = memory + bytes;
    char *page = (char *)(((uintptr_t)memory + PAGE - 1) / PAGE * PAGE);
    char *last = (char *)((uintptr_t)end / PAGE * PAGE);
    if (page >= last || madvise(page, (size_t)(last - page), MADV_DONTNEED)) {
        memset(memory, 0, bytes);
        return;
    }
    memset(memory, 0, (size_t)(page - memory));
    memset(last, 0, (size_t)(end - last));
}

/* Free neighbours become one piece. */
static void join(void)
{
    for (struct piece *piece = first; piece; piece = piece->next) {
        while (!piece->is_taken && piece->next && !piece->next->is_taken) {
            struct piece *gone = piece->next;
            piece->size += gone->size;
            piece->next = gone->next;
            *gone = (struct piece){ 0 };
        }
    }
}

int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
    void *memory = NULL;
    if (!teams.is_quiet && size > 0 && (uint64_t)size < ROOM && reserve())
        memory = take((size_t)size);
    if (!memory)
        return PMPI_Alloc_mem(size, info, baseptr);
    memcpy(baseptr, &memory, sizeof memory);
    return MPI_SUCCESS;
}

int MPI_Free_mem(void *base)
{
    struct piece *piece = (struct piece *)((char *)base - offsetof(struct piece, memory));
    if (!first || piece < first || (uintptr_t)piece >= (uintptr_t)first + ROOM)
        return PMPI_Free_mem(base);
    piece->is_taken = false;
    clear(piece->memory, piece->size - sizeof *piece);
    join();
    return MPI_SUCCESS;
}

/* Under a name of its own for pointers of C, with Open MPI. */
#define ALLOCATES(name, capitals)                                                                       \
    FORTRAN(name, capitals, (MPI_Aint * size, MPI_Fint *info, void *baseptr, MPI_Fint *error))          \
    {                                                                                                   \
        ERROR_IS_OPTIONAL(error);                                                                       \
        *error = MPI_Alloc_mem(*size, PMPI_Info_f2c(*info), baseptr);                                   \
    }
ALLOCATES(mpi_alloc_mem, MPI_ALLOC_MEM)
ALLOCATES(mpi_alloc_mem_cptr, MPI_ALLOC_MEM_CPTR)
FORTRAN(mpi_free_mem, MPI_FREE_MEM, (void *base, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    *error = MPI_Free_mem(base);
}
