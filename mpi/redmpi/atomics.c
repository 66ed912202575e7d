/* Operations that read and write a window at once. See windows.h.
 *
 * What they find depends on who comes first. Under a shared lock, each takes its turn, in the order of the first team.
 * Under an exclusive lock nobody else comes. Between fences, the MPI may perform operations as late as at the fence:
 * there, all replicas take the results of replica 0. */
#include "requests.h"
#include "teams.h"
#include "windows.h"

/* Whether the operation has a turn, which it takes. */
static bool enter(const struct window *window, int target)
{
    if (!window || !is_open(window, target))
        return false;
    begin_access(window, target);
    return true;
}

static void leave(const struct window *window, int target, bool has_turn)
{
    if (has_turn)
        end_access(window, target);
}

/* What was found is compared now, or when the program may see it. */
static void see_found(struct window *window, const char *name, void *found, int count, MPI_Datatype type, int target,
                      bool had_turn)
{
    if (had_turn)
        check_found(window, name, found, count, type);
    else if (window && target >= 0 && target < window->size)
        remember_get(window, found, count, type, target, !window->is_exclusive[target]);
}

int MPI_Accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                   MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window)
        offer(window, "MPI_Accumulate", origin_addr, origin_count, origin_datatype, target_rank);
    bool has_turn = enter(window, target_rank);
    int result = PMPI_Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                 target_datatype, op, win);
    leave(window, target_rank, has_turn);
    return result;
}

int MPI_Raccumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
                    MPI_Request *request)
{
    struct window *window = window_of(win);
    if (window && is_open(window, target_rank))
        return ended_request(MPI_Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                            target_count, target_datatype, op, win),
                             request);
    if (window)
        offer(window, "MPI_Raccumulate", origin_addr, origin_count, origin_datatype, target_rank);
    return PMPI_Raccumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                            target_datatype, op, win, request);
}

int MPI_Get_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, void *result_addr,
                       int result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
                       int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window && op != MPI_NO_OP)
        offer(window, "MPI_Get_accumulate", origin_addr, origin_count, origin_datatype, target_rank);
    bool has_turn = enter(window, target_rank);
    int result = PMPI_Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                     result_datatype, target_rank, target_disp, target_count, target_datatype, op, win);
    leave(window, target_rank, has_turn);
    if (result == MPI_SUCCESS)
        see_found(window, "MPI_Get_accumulate", result_addr, result_count, result_datatype, target_rank, has_turn);
    return result;
}

/* Only under a lock. */
int MPI_Rget_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, void *result_addr,
                        int result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
                        int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request *request)
{
    struct window *window = window_of(win);
    if (!window || target_rank == MPI_PROC_NULL)
        return PMPI_Rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                    result_datatype, target_rank, target_disp, target_count, target_datatype, op, win,
                                    request);
    int result = MPI_Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                    result_datatype, target_rank, target_disp, target_count, target_datatype, op, win);
    if (result == MPI_SUCCESS)
        result = MPI_Win_flush(target_rank, win);
    return ended_request(result, request);
}

int MPI_Fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype, int target_rank,
                     MPI_Aint target_disp, MPI_Op op, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window && op != MPI_NO_OP)
        offer(window, "MPI_Fetch_and_op", origin_addr, 1, datatype, target_rank);
    bool has_turn = enter(window, target_rank);
    int result = PMPI_Fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win);
    leave(window, target_rank, has_turn);
    if (result == MPI_SUCCESS)
        see_found(window, "MPI_Fetch_and_op", result_addr, 1, datatype, target_rank, has_turn);
    return result;
}

int MPI_Compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr, MPI_Datatype datatype,
                         int target_rank, MPI_Aint target_disp, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window) {
        offer(window, "MPI_Compare_and_swap", origin_addr, 1, datatype, target_rank);
        offer(window, "MPI_Compare_and_swap", compare_addr, 1, datatype, target_rank);
    }
    bool has_turn = enter(window, target_rank);
    int result = PMPI_Compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win);
    leave(window, target_rank, has_turn);
    if (result == MPI_SUCCESS)
        see_found(window, "MPI_Compare_and_swap", result_addr, 1, datatype, target_rank, has_turn);
    return result;
}
