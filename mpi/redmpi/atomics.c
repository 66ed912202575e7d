/* Operations that read a window and write it at once. See windows.h.
 *
 * What they find depends on who comes first. Replica 0 performs the operation, and tells what it found. The others wait
 * until their own window has that value, and then write what comes of it. So the order at each place is that of the
 * first team. Between fences, the MPI may perform operations as late as at the fence: there, only what was found is
 * told. */
#include <stdlib.h>
#include <string.h>

#include "decisions.h"
#include "events.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "windows.h"

/* The largest type of an atomic operation. */
#define LARGEST 64

/* How often the own window is looked at until it has the value of replica 0. */
#define TURNS 1000000

static bool is_passive(const struct window *window, int target)
{
    return target >= 0 && target < window->size && (window->shared_locks || window->is_exclusive[target]);
}

/* A type of this size that can be compared and swapped. */
static MPI_Datatype integer_of(int size)
{
    switch (size) {
    case 1:
        return MPI_UINT8_T;
    case 2:
        return MPI_UINT16_T;
    case 4:
        return MPI_UINT32_T;
    case 8:
        return MPI_UINT64_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* Writes `next` where the window has `found`, as soon as it has it. */
static void replace(const struct window *window, const void *found, const void *next, int size, int target,
                    MPI_Aint place)
{
    unsigned char seen[LARGEST];
    for (unsigned turn = 0; turn < TURNS; turn++) {
        PMPI_Compare_and_swap(next, found, seen, integer_of(size), target, place, window->native);
        PMPI_Win_flush(target, window->native);
        if (!memcmp(seen, found, (size_t)size))
            return;
        advance_receives();
        rest(turn);
    }
    stop_job("replica %d of rank %d never finds in a window what replica 0 has found there", teams.replica, teams.rank);
}

/* One element. The value of replica 0 is in `found` afterwards. */
static int follow(const struct window *window, const void *operand, void *found, MPI_Datatype type, int target,
                  MPI_Aint place, MPI_Op op)
{
    int size, result = MPI_SUCCESS;
    unsigned char next[LARGEST];
    PMPI_Type_size(type, &size);
    if (decides()) {
        result = PMPI_Fetch_and_op(operand, found, type, target, place, op, window->native);
        PMPI_Win_flush(target, window->native);
    }
    share_bytes(found, size);
    if (decides() || op == MPI_NO_OP)
        return result;
    memcpy(next, op == MPI_REPLACE ? operand : found, (size_t)size);
    if (op != MPI_REPLACE)
        PMPI_Reduce_local(operand, next, 1, type, op);
    if (memcmp(next, found, (size_t)size))
        replace(window, found, next, size, target, place);
    return MPI_SUCCESS;
}

/* Whether one element of this type can be followed. */
static bool can_follow(const struct window *window, MPI_Datatype type, int target)
{
    int size;
    if (!is_passive(window, target) || is_derived(type))
        return false;
    PMPI_Type_size(type, &size);
    return integer_of(size) != MPI_DATATYPE_NULL;
}

/* What the MPI finds is told when the program may see it. */
static void decide_later(struct window *window, void *found, int count, MPI_Datatype type, int target)
{
    if (count <= 0 || type == MPI_DATATYPE_NULL || target < 0 || target >= window->size)
        return;
    struct region region = region_of(found, (size_t)count, type);
    if (region.bytes)
        remember_get(window, (struct pending_get){ .region = region, .target = target, .is_decided = true });
}

int MPI_Fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype, int target_rank,
                     MPI_Aint target_disp, MPI_Op op, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (!window || target_rank == MPI_PROC_NULL)
        return PMPI_Fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win);
    if (op != MPI_NO_OP)
        offer(window, "MPI_Fetch_and_op", origin_addr, 1, datatype, target_rank);
    if (can_follow(window, datatype, target_rank))
        return follow(window, origin_addr, result_addr, datatype, target_rank, target_disp, op);
    int result = PMPI_Fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win);
    decide_later(window, result_addr, 1, datatype, target_rank);
    return result;
}

int MPI_Get_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, void *result_addr,
                       int result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
                       int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (!window || target_rank == MPI_PROC_NULL)
        return PMPI_Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                   result_datatype, target_rank, target_disp, target_count, target_datatype, op, win);
    if (op != MPI_NO_OP)
        offer(window, "MPI_Get_accumulate", origin_addr, origin_count, origin_datatype, target_rank);
    bool is_one = result_count == 1 && target_count == 1 && result_datatype == target_datatype &&
                  (op == MPI_NO_OP || (origin_count == 1 && origin_datatype == target_datatype));
    if (is_one && can_follow(window, target_datatype, target_rank))
        return follow(window, origin_addr, result_addr, target_datatype, target_rank, target_disp, op);
    int result = PMPI_Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                     result_datatype, target_rank, target_disp, target_count, target_datatype, op, win);
    decide_later(window, result_addr, result_count, result_datatype, target_rank);
    return result;
}

/* It is done at once: the program's request is one of nothing. */
int MPI_Rget_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, void *result_addr,
                        int result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
                        int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request *request)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (!window || target_rank == MPI_PROC_NULL)
        return PMPI_Rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                    result_datatype, target_rank, target_disp, target_count, target_datatype, op, win,
                                    request);
    int result = MPI_Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                    result_datatype, target_rank, target_disp, target_count, target_datatype, op, win);
    if (result != MPI_SUCCESS)
        return result;
    PMPI_Win_flush(target_rank, win);
    settle(window, target_rank);
    return PMPI_Ibarrier(MPI_COMM_SELF, request);
}

int MPI_Compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr, MPI_Datatype datatype,
                         int target_rank, MPI_Aint target_disp, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    int size, result = MPI_SUCCESS;
    if (window && target_rank != MPI_PROC_NULL) {
        offer(window, "MPI_Compare_and_swap", origin_addr, 1, datatype, target_rank);
        offer(window, "MPI_Compare_and_swap", compare_addr, 1, datatype, target_rank);
    }
    if (!window || decides() || !can_follow(window, datatype, target_rank))
        result = PMPI_Compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win);
    if (!window || target_rank == MPI_PROC_NULL || result != MPI_SUCCESS)
        return result;
    if (!can_follow(window, datatype, target_rank)) {
        decide_later(window, result_addr, 1, datatype, target_rank);
        return result;
    }
    PMPI_Type_size(datatype, &size);
    if (decides())
        PMPI_Win_flush(target_rank, win);
    share_bytes(result_addr, size);
    if (!decides() && !memcmp(result_addr, compare_addr, (size_t)size) && memcmp(result_addr, origin_addr, (size_t)size))
        replace(window, result_addr, origin_addr, size, target_rank, target_disp);
    return MPI_SUCCESS;
}
