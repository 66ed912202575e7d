/* Windows, and the calls between which memory may be accessed. See windows.h. */
#include "windows.h"

#include <stdlib.h>

#include "collectives.h"
#include "communicators.h"
#include "decisions.h"
#include "events.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"

/* The attribute of a window that is our record of it. */
static int window_key = MPI_KEYVAL_INVALID;

/* Receives go on until all members are here; while the MPI waits for them, they do not. */
static void meet(const struct window *window)
{
    MPI_Request request;
    flush_decisions();
    PMPI_Ibarrier(window->comm, &request);
    complete(&request, MPI_STATUS_IGNORE);
}

static void begin_window(MPI_Win native, MPI_Comm comm)
{
    struct window *window = calloc(1, sizeof *window);
    uint64_t *tickets;
    if (!window)
        stop_job("no memory for a window");
    window->native = native;
    window->shadow = shadow_hold(needed_shadow(comm));
    PMPI_Comm_dup(comm, &window->comm);
    PMPI_Comm_size(comm, &window->size);
    window->is_exclusive = calloc((size_t)window->size, sizeof *window->is_exclusive);
    if (!window->is_exclusive)
        stop_job("no memory for a window");
    PMPI_Win_allocate(2 * sizeof *tickets, sizeof *tickets, MPI_INFO_NULL, window->comm, &tickets, &window->tickets);
    tickets[TICKET_NEXT] = tickets[TICKET_TURN] = 0;
    PMPI_Barrier(window->comm);
    PMPI_Win_lock_all(MPI_MODE_NOCHECK, window->tickets);
    if (window_key == MPI_KEYVAL_INVALID)
        PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &window_key, NULL);
    PMPI_Win_set_attr(native, window_key, window);
}

struct window *window_of(MPI_Win native)
{
    void *value = NULL;
    int is_there = 0;
    if (native == MPI_WIN_NULL || window_key == MPI_KEYVAL_INVALID)
        return NULL;
    PMPI_Win_get_attr(native, window_key, &value, &is_there);
    return is_there ? value : NULL;
}

/* A window is made by all members at once, as a communicator is. The teams make it one after the other: Open MPI has
 * files for it, whose names would be the same in all teams. */
static void wait_for_team(MPI_Comm comm)
{
    MPI_Request request;
    before_new_communicator(comm);
    if (teams.replica == 0)
        return;
    PMPI_Irecv(NULL, 0, MPI_BYTE, teams.replica - 1, TAG_TURN, teams.column, &request);
    complete(&request, MPI_STATUS_IGNORE);
}

static int made(int result, MPI_Win native, MPI_Comm comm)
{
    if (result == MPI_SUCCESS)
        begin_window(native, comm);
    if (teams.replica + 1 < teams.replicas)
        PMPI_Send(NULL, 0, MPI_BYTE, teams.replica + 1, TAG_TURN, teams.column);
    return result;
}

int MPI_Win_create(void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    if (teams.is_quiet)
        return PMPI_Win_create(base, size, disp_unit, info, comm, win);
    comm = real_comm(comm);
    wait_for_team(comm);
    int result = PMPI_Win_create(base, size, disp_unit, info, comm, win);
    return made(result, *win, comm);
}

int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    if (teams.is_quiet)
        return PMPI_Win_allocate(size, disp_unit, info, comm, baseptr, win);
    comm = real_comm(comm);
    wait_for_team(comm);
    int result = PMPI_Win_allocate(size, disp_unit, info, comm, baseptr, win);
    return made(result, *win, comm);
}

int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    if (teams.is_quiet)
        return PMPI_Win_allocate_shared(size, disp_unit, info, comm, baseptr, win);
    comm = real_comm(comm);
    wait_for_team(comm);
    int result = PMPI_Win_allocate_shared(size, disp_unit, info, comm, baseptr, win);
    return made(result, *win, comm);
}

int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    if (teams.is_quiet)
        return PMPI_Win_create_dynamic(info, comm, win);
    comm = real_comm(comm);
    wait_for_team(comm);
    int result = PMPI_Win_create_dynamic(info, comm, win);
    return made(result, *win, comm);
}

int MPI_Win_free(MPI_Win *win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(*win);
    if (!window)
        return PMPI_Win_free(win);
    meet(window);
    PMPI_Win_delete_attr(*win, window_key);
    int result = PMPI_Win_free(win);
    PMPI_Win_unlock_all(window->tickets);
    PMPI_Win_free(&window->tickets);
    PMPI_Comm_free(&window->comm);
    shadow_release(window->shadow);
    free(window->gets);
    free(window->is_exclusive);
    free(window);
    return result;
}

int MPI_Win_fence(int assert, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (!window)
        return PMPI_Win_fence(assert, win);
    meet(window);
    int result = PMPI_Win_fence(assert, win);
    settle(window, -1);
    return result;
}

int MPI_Win_start(MPI_Group group, int assert, MPI_Win win)
{
    flush_decisions();
    return PMPI_Win_start(group, assert, win);
}

int MPI_Win_complete(MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    flush_decisions();
    int result = PMPI_Win_complete(win);
    if (window)
        settle(window, -1);
    return result;
}

int MPI_Win_wait(MPI_Win win)
{
    int is_done = 0, result = MPI_SUCCESS;
    if (teams.is_quiet)
        return PMPI_Win_wait(win);
    flush_decisions();
    for (unsigned looks = 0; !is_done && result == MPI_SUCCESS; looks++) {
        advance_receives();
        rest(looks);
        result = PMPI_Win_test(win, &is_done);
    }
    return result;
}

/* Whether the others are done is decided by one replica. */
int MPI_Win_test(MPI_Win win, int *flag)
{
    if (teams.is_quiet)
        return PMPI_Win_test(win, flag);
    struct decision decision = { .kind = DECISION_FOUND };
    if (!decides()) {
        *flag = hear_decision(&decision);
        return *flag ? MPI_Win_wait(win) : MPI_SUCCESS;
    }
    advance_receives();
    int result = PMPI_Win_test(win, flag);
    if (*flag)
        tell_decision(&decision);
    else
        tell_nothing();
    return result;
}

void share_bytes(void *bytes, int length)
{
    MPI_Request request;
    flush_decisions();
    for (int replica = 1; replica < teams.replicas && decides(); replica++) {
        PMPI_Isend(bytes, length, MPI_BYTE, replica, TAG_SHARED, teams.column, &request);
        complete(&request, MPI_STATUS_IGNORE);
    }
    if (decides())
        return;
    PMPI_Irecv(bytes, length, MPI_BYTE, 0, TAG_SHARED, teams.column, &request);
    complete(&request, MPI_STATUS_IGNORE);
}

uint64_t add_to_ticket(const struct window *window, int target, enum ticket which, uint64_t amount)
{
    uint64_t before;
    PMPI_Fetch_and_op(&amount, &before, MPI_UINT64_T, target, which, amount ? MPI_SUM : MPI_NO_OP, window->tickets);
    PMPI_Win_flush(target, window->tickets);
    return before;
}

static void wait_for_turn(const struct window *window, int target, uint64_t ticket)
{
    for (unsigned looks = 0; add_to_ticket(window, target, TICKET_TURN, 0) != ticket; looks++) {
        advance_receives();
        rest(looks);
    }
}

/* In all teams, processes get the locks of a target in the order of the first team: by tickets. Who wants those of all
 * targets takes one after the other, as all others do, so that nobody waits in a circle. */
static void wait_for_turns(const struct window *window, int first, int count)
{
    uint64_t *own = calloc((size_t)count, sizeof *own);
    if (!own)
        stop_job("no memory for the locks of a window");
    for (int i = 0; i < count && decides(); i++) {
        own[i] = add_to_ticket(window, first + i, TICKET_NEXT, 1);
        wait_for_turn(window, first + i, own[i]);
    }
    share_bytes(own, (int)sizeof *own * count);
    for (int i = 0; i < count && !decides(); i++)
        wait_for_turn(window, first + i, own[i]);
    free(own);
}

static void end_turns(const struct window *window, int first, int count)
{
    for (int i = 0; i < count; i++)
        add_to_ticket(window, first + i, TICKET_TURN, 1);
}

int MPI_Win_lock(int lock_type, int rank, int assert, MPI_Win win)
{
    struct window *window = teams.is_quiet || rank < 0 ? NULL : window_of(win);
    if (!window || rank >= window->size)
        return PMPI_Win_lock(lock_type, rank, assert, win);
    wait_for_turns(window, rank, 1);
    int result = PMPI_Win_lock(lock_type, rank, assert, win);
    if (result == MPI_SUCCESS && lock_type == MPI_LOCK_EXCLUSIVE) {
        window->is_exclusive[rank] = true;
        return result;
    }
    /* The next one may have a shared lock as well. */
    end_turns(window, rank, 1);
    window->shared_locks += result == MPI_SUCCESS;
    return result;
}

int MPI_Win_unlock(int rank, MPI_Win win)
{
    struct window *window = teams.is_quiet || rank < 0 ? NULL : window_of(win);
    flush_decisions();
    int result = PMPI_Win_unlock(rank, win);
    if (!window || rank >= window->size)
        return result;
    settle(window, rank);
    if (window->is_exclusive[rank])
        end_turns(window, rank, 1);
    else
        window->shared_locks--;
    window->is_exclusive[rank] = false;
    return result;
}

int MPI_Win_lock_all(int assert, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (!window)
        return PMPI_Win_lock_all(assert, win);
    wait_for_turns(window, 0, window->size);
    int result = PMPI_Win_lock_all(assert, win);
    end_turns(window, 0, window->size);
    window->shared_locks += result == MPI_SUCCESS;
    return result;
}

int MPI_Win_unlock_all(MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    flush_decisions();
    int result = PMPI_Win_unlock_all(win);
    if (window) {
        settle(window, -1);
        window->shared_locks--;
    }
    return result;
}

static int flushed(MPI_Win win, int target, int result)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (!window)
        return result;
    window->can_get_again = true;
    settle(window, target);
    window->can_get_again = false;
    return result;
}

int MPI_Win_flush(int rank, MPI_Win win)
{
    return flushed(win, rank, PMPI_Win_flush(rank, win));
}

int MPI_Win_flush_local(int rank, MPI_Win win)
{
    return flushed(win, rank, PMPI_Win_flush_local(rank, win));
}

int MPI_Win_flush_all(MPI_Win win)
{
    return flushed(win, -1, PMPI_Win_flush_all(win));
}

int MPI_Win_flush_local_all(MPI_Win win)
{
    return flushed(win, -1, PMPI_Win_flush_local_all(win));
}
