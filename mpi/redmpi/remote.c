/* What is put into windows and got from them. See windows.h. */
#include <stdlib.h>
#include <string.h>

#include "collectives.h"
#include "events.h"
#include "requests.h"
#include "teams.h"
#include "windows.h"

/* What may be a flag that the program waits for, in bytes: such an access waits for its turn. */
#define FLAG 16

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

void check_found(const struct window *window, const char *name, void *buffer, int count, MPI_Datatype type)
{
    struct transfer transfer = transfer_of(window, name, region_of(buffer, (size_t)count, type));
    if (transfer.only.bytes)
        compare_one(&transfer);
}

void remember_get(struct window *window, void *buffer, int count, MPI_Datatype type, int target, bool is_decided)
{
    if (!is_valid(window, count, type, target))
        return;
    struct pending_get get = { .target = target, .is_decided = is_decided };
    get.region = region_of(buffer, (size_t)count, type);
    if (!get.region.bytes)
        return;
    if (window->used == window->room) {
        window->room = window->room ? 2 * window->room : 16;
        window->gets = realloc(window->gets, sizeof *window->gets * (size_t)window->room);
        if (!window->gets)
            stop_job("no memory for what is got from a window");
    }
    keep_type_of(&get.region);
    window->gets[window->used++] = get;
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

void settle(struct window *window, int target)
{
    int kept = 0;
    for (int i = 0; i < window->used; i++) {
        struct pending_get *get = &window->gets[i];
        if (target != ALL_TARGETS && get->target != target) {
            window->gets[kept++] = *get;
            continue;
        }
        struct transfer transfer = transfer_of(window, "MPI_Get", get->region);
        if (get->is_decided)
            share_region(&get->region);
        else
            compare_one(&transfer);
        drop_type_of(&get->region);
    }
    window->used = kept;
}

/* Whether an access to an open target is ordered, since it may be one to a flag. */
static bool is_flag(const struct window *window, int count, MPI_Datatype type, int target)
{
    return window && is_valid(window, count, type, target) && is_open(window, target) &&
           message_bytes((size_t)count, type) <= FLAG;
}

int MPI_Put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
            MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct window *window = window_of(win);
    bool is_ordered = is_flag(window, origin_count, origin_datatype, target_rank);
    if (window)
        offer(window, "MPI_Put", origin_addr, origin_count, origin_datatype, target_rank);
    if (is_ordered)
        begin_access(window, target_rank);
    int result = PMPI_Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win);
    if (is_ordered)
        end_access(window, target_rank);
    return result;
}

int ended_request(int result, MPI_Request *request)
{
    return result == MPI_SUCCESS ? PMPI_Ibarrier(MPI_COMM_SELF, request) : result;
}

int MPI_Rput(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
             MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
    struct window *window = window_of(win);
    if (is_flag(window, origin_count, origin_datatype, target_rank))
        return ended_request(MPI_Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                            target_datatype, win), request);
    if (window)
        offer(window, "MPI_Rput", origin_addr, origin_count, origin_datatype, target_rank);
    return PMPI_Rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                     target_datatype, win, request);
}

int MPI_Get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
            int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    struct window *window = window_of(win);
    bool is_ordered = is_flag(window, origin_count, origin_datatype, target_rank);
    if (is_ordered)
        begin_access(window, target_rank);
    int result = PMPI_Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win);
    if (is_ordered) {
        end_access(window, target_rank);
        check_found(window, "MPI_Get", origin_addr, origin_count, origin_datatype);
    } else if (window && result == MPI_SUCCESS) {
        remember_get(window, origin_addr, origin_count, origin_datatype, target_rank, false);
    }
    return result;
}

/* It ends with its request, and is compared there. */
int MPI_Rget(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
             int target_count, MPI_Datatype target_datatype, MPI_Win win, MPI_Request *request)
{
    struct window *window = window_of(win);
    MPI_Request native;
    if (is_flag(window, origin_count, origin_datatype, target_rank))
        return ended_request(MPI_Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                            target_datatype, win), request);
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
