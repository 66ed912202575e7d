/* What is put into windows and got from them. See windows.h. */
#include <stdlib.h>
#include <string.h>

#include "collectives.h"
#include "decisions.h"
#include "digest.h"
#include "events.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "windows.h"

/* What may be a flag that the program waits for, in bytes: replica 0 decides which value it has. */
#define FLAG 16

/* How often data are got again that differ from those of replica 0, since its team may be ahead. */
#define TURNS 20000

static struct transfer transfer_of(const struct window *window, const char *name, struct region region)
{
    return (struct transfer){ .name = name, .shadow = window->shadow, .only = region };
}

static void compare_one(struct transfer *transfer)
{
    transfer->outputs = &transfer->only;
    transfer->count = 1;
    after_transfer(transfer);
}

static bool is_valid(const struct window *window, int count, MPI_Datatype type, int target)
{
    return count >= 0 && type != MPI_DATATYPE_NULL && target >= 0 && target < window->size;
}

void offer(const struct window *window, const char *name, const void *buffer, int count, MPI_Datatype type, int target)
{
    if (!is_valid(window, count, type, target))
        return;
    struct transfer transfer = transfer_of(window, name, region_of(buffer, (size_t)count, type));
    transfer.input = transfer.only;
    before_transfer(&transfer);
    if (transfer.only.bytes)
        compare_one(&transfer);
}

/* Who holds no lock is between fences, or the like: others may not write what it gets. */
static bool is_open(const struct window *window, int target)
{
    return window->shared_locks && !window->is_exclusive[target];
}

void remember_get(struct window *window, struct pending_get get)
{
    if (window->used == window->room) {
        window->room = window->room ? 2 * window->room : 16;
        window->gets = realloc(window->gets, sizeof *window->gets * (size_t)window->room);
        if (!window->gets)
            stop_job("no memory for what is got from a window");
    }
    keep_type_of(&get.region);
    if (!get.is_decided && is_derived(get.type))
        PMPI_Type_dup(get.type, &get.type);
    window->gets[window->used++] = get;
}

static void forget(struct pending_get *get)
{
    drop_type_of(&get->region);
    if (!get->is_decided && is_derived(get->type)) {
        forget_type(get->type);
        PMPI_Type_free(&get->type);
    }
}

static struct digest digest_of_region(const struct region *region)
{
    struct packed packed = pack(region->buffer, region->bytes, region->type);
    struct digest digest = digest_of(packed.data, packed.bytes);
    release_packed(&packed);
    return digest;
}

static void get_again(const struct window *window, const struct pending_get *get)
{
    int origin = (int)(get->region.bytes / message_bytes(1, get->region.type));
    PMPI_Get(get->region.buffer, origin, get->region.type, get->target, get->place, get->count, get->type,
             window->native);
    PMPI_Win_flush(get->target, window->native);
}

/* The team of replica 0 may be ahead: then its data will come. */
static void wait_for_first(const struct window *window, const struct pending_get *get)
{
    struct digest first = { 0 };
    if (decides())
        first = digest_of_region(&get->region);
    share_bytes(&first, sizeof first);
    for (unsigned turn = 0; turn < TURNS && !decides(); turn++) {
        struct digest own = digest_of_region(&get->region);
        if (same_digest(&own, &first))
            return;
        advance_receives();
        rest(turn);
        get_again(window, get);
    }
}

static void share_region(const struct region *region)
{
    struct packed packed = pack(region->buffer, region->bytes, region->type);
    void *bytes = malloc(region->bytes);
    if (!bytes)
        stop_job("no memory for what is got from a window");
    memcpy(bytes, packed.data, region->bytes);
    release_packed(&packed);
    share_bytes(bytes, (int)region->bytes);
    unpack(region->buffer, bytes, region->bytes, region->type);
    free(bytes);
}

static void settle_one(const struct window *window, struct pending_get *get)
{
    if (get->is_decided || (get->is_open && get->region.bytes <= FLAG)) {
        share_region(&get->region);
        return;
    }
    /* After the last lock is given back, it cannot be got again. */
    if (get->is_open && window->can_get_again)
        wait_for_first(window, get);
    struct transfer transfer = transfer_of(window, "MPI_Get", get->region);
    compare_one(&transfer);
}

void settle(struct window *window, int target)
{
    int kept = 0;
    for (int i = 0; i < window->used; i++) {
        struct pending_get *get = &window->gets[i];
        if (target >= 0 && get->target != target) {
            window->gets[kept++] = *get;
            continue;
        }
        settle_one(window, get);
        forget(get);
    }
    window->used = kept;
}

int MPI_Put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
            MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (window)
        offer(window, "MPI_Put", origin_addr, origin_count, origin_datatype, target_rank);
    return PMPI_Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype,
                    win);
}

int MPI_Rput(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (window)
        offer(window, "MPI_Rput", origin_addr, origin_count, origin_datatype, target_rank);
    return PMPI_Rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                     target_datatype, win, request);
}

int MPI_Accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                   MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (window)
        offer(window, "MPI_Accumulate", origin_addr, origin_count, origin_datatype, target_rank);
    return PMPI_Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                           target_datatype, op, win);
}

int MPI_Raccumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                    MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
                    MPI_Request *request)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    if (window)
        offer(window, "MPI_Raccumulate", origin_addr, origin_count, origin_datatype, target_rank);
    return PMPI_Raccumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                            target_datatype, op, win, request);
}

int MPI_Get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
            int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    int result = PMPI_Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win);
    struct window *window = teams.is_quiet || result != MPI_SUCCESS ? NULL : window_of(win);
    if (!window || !is_valid(window, origin_count, origin_datatype, target_rank))
        return result;
    struct region region = region_of(origin_addr, (size_t)origin_count, origin_datatype);
    if (region.bytes)
        remember_get(window, (struct pending_get){ .region = region, .target = target_rank,
                                                   .is_open = is_open(window, target_rank), .count = target_count,
                                                   .type = target_datatype, .place = target_disp });
    return result;
}

/* It ends with its request, and is compared there. */
int MPI_Rget(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
             int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
    struct window *window = teams.is_quiet ? NULL : window_of(win);
    MPI_Request native;
    int result = PMPI_Rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                           target_datatype, win, window ? &native : request);
    if (!window || result != MPI_SUCCESS)
        return result;
    struct transfer transfer = { .name = "MPI_Rget", .shadow = window->shadow };
    if (is_valid(window, origin_count, origin_datatype, target_rank)) {
        transfer.only = region_of(origin_addr, (size_t)origin_count, origin_datatype);
        transfer.outputs = &transfer.only;
        transfer.count = transfer.only.bytes ? 1 : 0;
    }
    *request = transfer_request(&transfer, native);
    return result;
}
