/* Windows, and the calls between which memory may be accessed. See windows.h. */
#include "windows.h"

#include <stdlib.h>
#include <string.h>

#include "bindings.h"
#include "collectives.h"
#include "communicators.h"
#include "decisions.h"
#include "drops.h"
#include "events.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* The attribute of a window that is our record of it. */
static int window_key = MPI_KEYVAL_INVALID;

static void begin_window(MPI_Win native, MPI_Comm comm)
{
    need_all_teams("a replica has left the common path, and a program with windows cannot go on without its team");
    struct window *window = calloc(1, sizeof *window);
    if (!window)
        stop_job("no memory for a window");
    window->native = native;
    window->shadow = shadow_hold(needed_shadow(comm));
    window->tickets = take_tickets(window->shadow, comm);
    window->comm = comm_of_tickets(&window->tickets);
    PMPI_Comm_size(comm, &window->size);
    window->is_exclusive = calloc((size_t)window->size, sizeof *window->is_exclusive);
    if (!window->is_exclusive)
        stop_job("no memory for a window");
    if (window_key == MPI_KEYVAL_INVALID)
        PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &window_key, NULL);
    PMPI_Win_set_attr(native, window_key, window);
}

struct window *window_of(MPI_Win native)
{
    void *value = NULL;
    int is_there = 0;
    if (teams.is_quiet || native == MPI_WIN_NULL)
        return NULL;
    if (window_key != MPI_KEYVAL_INVALID)
        PMPI_Win_get_attr(native, window_key, &value, &is_there);
    if (!is_there)
        stop_job("a window that was made in a way that is not supported");
    return value;
}

/* A window is made by all members at once, as a communicator is. The teams make it one after the other, and none goes
 * on to its next one before: Open MPI has files for windows, whose names would be the same in all teams. */
static void wait_for_team(MPI_Comm comm)
{
    MPI_Request request;
    meet(comm);
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
    meet(teams.column);
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

typedef int allocation(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win);

static int allocate(allocation *of_mpi, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,
                    MPI_Win *win)
{
    if (teams.is_quiet)
        return of_mpi(size, disp_unit, info, comm, baseptr, win);
    comm = real_comm(comm);
    wait_for_team(comm);
    int result = of_mpi(size, disp_unit, info, comm, baseptr, win);
    return made(result, *win, comm);
}

int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    return allocate(PMPI_Win_allocate, size, disp_unit, info, comm, baseptr, win);
}

int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    return allocate(PMPI_Win_allocate_shared, size, disp_unit, info, comm, baseptr, win);
}

/* In Fortran, and there also for pointers of C, under a name of its own with Open MPI, and in MPICH's Fortran 2008 with
 * large units. */
#define ALLOCATES(name, capitals, of_c)                                                                            \
    FORTRAN(name, capitals, (MPI_Aint * size, MPI_Fint *disp_unit, MPI_Fint *info, MPI_Fint *comm, void *baseptr, \
                             MPI_Fint *win, MPI_Fint *error))                                                      \
    {                                                                                                              \
        ERROR_IS_OPTIONAL(error);                                                                                  \
        MPI_Win own = MPI_WIN_NULL;                                                                                \
        *error = of_c(*size, *disp_unit, PMPI_Info_f2c(*info), PMPI_Comm_f2c(*comm), baseptr, &own);               \
        *win = PMPI_Win_c2f(own);                                                                                  \
    }                                                                                                              \
    void name##_f08_large_(MPI_Aint *size, MPI_Aint *disp_unit, MPI_Fint *info, MPI_Fint *comm, void *baseptr,     \
                           MPI_Fint *win, MPI_Fint *error)                                                         \
    {                                                                                                              \
        MPI_Fint unit = small(*disp_unit, #capitals);                                                              \
        name##_(size, &unit, info, comm, baseptr, win, error);                                                     \
    }
ALLOCATES(mpi_win_allocate, MPI_WIN_ALLOCATE, MPI_Win_allocate)
ALLOCATES(mpi_win_allocate_cptr, MPI_WIN_ALLOCATE_CPTR, MPI_Win_allocate)
ALLOCATES(mpi_win_allocate_shared, MPI_WIN_ALLOCATE_SHARED, MPI_Win_allocate_shared)
ALLOCATES(mpi_win_allocate_shared_cptr, MPI_WIN_ALLOCATE_SHARED_CPTR, MPI_Win_allocate_shared)

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
    struct window *window = window_of(*win);
    if (!window)
        return PMPI_Win_free(win);
    meet(window->comm);
    int result = PMPI_Win_free(win);
    if (result != MPI_SUCCESS) { /* it is locked, say, and stays; MPICH has deleted its attributes all the same */
        PMPI_Win_set_attr(*win, window_key, window);
        return result;
    }
    give_tickets_back(window->shadow, &window->tickets);
    shadow_release(window->shadow);
    free(window->gets);
    free(window->is_exclusive);
    free(window);
    return result;
}

int MPI_Win_fence(int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    if (!window)
        return PMPI_Win_fence(assert, win);
    meet(window->comm);
    int result = PMPI_Win_fence(assert, win);
    settle(window, ALL_TARGETS);
    return result;
}

/* Who opens its window says so to those who wait for that: in MPI_Win_start, the MPI would wait without us. */
int MPI_Win_post(MPI_Group group, int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    int count = 0, result = PMPI_Win_post(group, assert, win);
    if (!window || result != MPI_SUCCESS)
        return result;
    int *members = ranks_in(window->comm, group, &count);
    for (int i = 0; i < count; i++) {
        MPI_Request request;
        PMPI_Isend(NULL, 0, MPI_BYTE, members[i], window->tickets.place, window->comm, &request);
        PMPI_Request_free(&request);
    }
    free(members);
    return result;
}

int MPI_Win_start(MPI_Group group, int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    /* The MPI says that this is an error. */
    if (!window || window->is_started)
        return PMPI_Win_start(group, assert, win);
    int count = 0, *members = ranks_in(window->comm, group, &count);
    flush_decisions();
    begin_wait("MPI_Win_start", NULL, -1, -1);
    for (int i = 0; i < count; i++) {
        MPI_Request request;
        PMPI_Irecv(NULL, 0, MPI_BYTE, members[i], window->tickets.place, window->comm, &request);
        complete(&request, MPI_STATUS_IGNORE);
    }
    end_wait();
    free(members);
    int result = PMPI_Win_start(group, assert, win);
    window->is_started = result == MPI_SUCCESS;
    return result;
}

int MPI_Win_complete(MPI_Win win)
{
    struct window *window = window_of(win);
    int result = PMPI_Win_complete(win);
    if (window && result == MPI_SUCCESS) {
        window->is_started = false;
        settle(window, ALL_TARGETS);
    }
    return result;
}

int MPI_Win_wait(MPI_Win win)
{
    int is_done = 0, result = MPI_SUCCESS;
    if (teams.is_quiet)
        return PMPI_Win_wait(win);
    begin_wait("MPI_Win_wait", NULL, -1, -1);
    for (unsigned looks = 0; !is_done && result == MPI_SUCCESS; looks++) {
        wait_on(looks);
        result = PMPI_Win_test(win, &is_done);
    }
    end_wait();
    return result;
}

static bool is_access_over(void *what, struct decision *decision)
{
    int is_done = 0;
    (void)decision;
    advance_receives();
    return PMPI_Win_test(*(MPI_Win *)what, &is_done) == MPI_SUCCESS && is_done;
}

/* Whether the others are done is decided by one replica. */
int MPI_Win_test(MPI_Win win, int *flag)
{
    if (teams.is_quiet)
        return PMPI_Win_test(win, flag);
    struct decision unused;
    bool waits_here = !leads();
    *flag = decide(&(struct choice){ .kind = DECISION_FOUND, .look = is_access_over, .what = &win }, &unused);
    return *flag && waits_here ? MPI_Win_wait(win) : MPI_SUCCESS;
}

void share_bytes(void *bytes, int length)
{
    MPI_Request request;
    flush_decisions();
    for (int replica = 1; replica < teams.replicas && leads(); replica++) {
        PMPI_Isend(bytes, length, MPI_BYTE, replica, TAG_SHARED, teams.column, &request);
        complete(&request, MPI_STATUS_IGNORE);
    }
    if (leads())
        return;
    PMPI_Irecv(bytes, length, MPI_BYTE, 0, TAG_SHARED, teams.column, &request);
    complete(&request, MPI_STATUS_IGNORE);
}

static void wait_for_count(const struct window *window, int target, enum ticket which, uint64_t count)
{
    begin_wait("turn", window->shadow, target, -1);
    for (unsigned looks = 0; add_to_ticket(&window->tickets, target, which, 0) != count; looks++)
        wait_on(looks);
    end_wait();
}

void wait_for_turn(const struct window *window, int target, enum ticket next, enum ticket turn)
{
    uint64_t own = leads() ? add_to_ticket(&window->tickets, target, next, 1) : 0;
    share_bytes(&own, sizeof own);
    wait_for_count(window, target, turn, own);
}

void begin_access(const struct window *window, int target)
{
    wait_for_turn(window, target, ACCESS_NEXT, ACCESS_TURN);
}

void end_access(const struct window *window, int target)
{
    PMPI_Win_flush(target, window->native);
    add_to_ticket(&window->tickets, target, ACCESS_TURN, 1);
}

/* Who has an exclusive lock keeps the turn. The locks of the MPI itself are then free: it would wait without us. */
static void take_lock(const struct window *window, int target, bool is_exclusive)
{
    wait_for_turn(window, target, LOCK_NEXT, LOCK_TURN);
    if (is_exclusive) {
        wait_for_count(window, target, READERS, 0);
        return;
    }
    add_to_ticket(&window->tickets, target, READERS, 1);
    add_to_ticket(&window->tickets, target, LOCK_TURN, 1);
}

static void give_lock_back(const struct window *window, int target, bool is_exclusive)
{
    if (is_exclusive)
        add_to_ticket(&window->tickets, target, LOCK_TURN, 1);
    else
        add_to_ticket(&window->tickets, target, READERS, UINT64_MAX);
}

int MPI_Win_lock(int lock_type, int rank, int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    bool is_exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
    if (!window || rank < 0 || rank >= window->size)
        return PMPI_Win_lock(lock_type, rank, assert, win);
    take_lock(window, rank, is_exclusive);
    int result = PMPI_Win_lock(lock_type, rank, assert, win);
    if (result != MPI_SUCCESS) {
        give_lock_back(window, rank, is_exclusive);
        return result;
    }
    window->is_exclusive[rank] = is_exclusive;
    window->shared_locks += !is_exclusive;
    return result;
}

int MPI_Win_unlock(int rank, MPI_Win win)
{
    struct window *window = window_of(win);
    int result = PMPI_Win_unlock(rank, win);
    if (!window || rank < 0 || rank >= window->size || result != MPI_SUCCESS)
        return result;
    settle(window, rank);
    give_lock_back(window, rank, window->is_exclusive[rank]);
    window->shared_locks -= !window->is_exclusive[rank];
    window->is_exclusive[rank] = false;
    return result;
}

int MPI_Win_lock_all(int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    for (int target = 0; window && target < window->size; target++)
        take_lock(window, target, false);
    int result = PMPI_Win_lock_all(assert, win);
    if (window)
        window->shared_locks++;
    return result;
}

int MPI_Win_unlock_all(MPI_Win win)
{
    struct window *window = window_of(win);
    int result = PMPI_Win_unlock_all(win);
    if (!window)
        return result;
    settle(window, ALL_TARGETS);
    for (int target = 0; target < window->size; target++)
        give_lock_back(window, target, false);
    window->shared_locks--;
    return result;
}

static int flushed(MPI_Win win, int target, int result)
{
    struct window *window = window_of(win);
    if (window && target != MPI_PROC_NULL)
        settle(window, target);
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
    return flushed(win, ALL_TARGETS, PMPI_Win_flush_all(win));
}

int MPI_Win_flush_local_all(MPI_Win win)
{
    return flushed(win, ALL_TARGETS, PMPI_Win_flush_local_all(win));
}
