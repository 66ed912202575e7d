/* See shared_pointers.h. */
#include "shared_pointers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decisions.h"
#include "drops.h"
#include "events.h"
#include "requests.h"
#include "teams.h"
#include "windows.h"

struct shared_pointer {
    MPI_File file;
    MPI_Comm comm; /* of those who share it */
    int name[2];   /* the rank of the first of them, and how many files it had opened */
    bool is_first;
    int amode;
    int counter; /* the file of the counter; -1: not opened yet */
    struct shared_pointer *next;
};

static struct shared_pointer *first;

static struct shared_pointer *pointer_of(MPI_File file)
{
    struct shared_pointer *pointer = teams.is_quiet ? NULL : first;
    while (pointer && pointer->file != file)
        pointer = pointer->next;
    return pointer;
}

static void path_of(const struct shared_pointer *pointer, char path[PATH_MAX])
{
    const char *folder = getenv("RAMPART_REDMPI");
    snprintf(path, PATH_MAX, "%s/pointer.%d.%d", folder ? folder : ".", pointer->name[0], pointer->name[1]);
}

static void lock(const struct shared_pointer *pointer, short kind)
{
    struct flock all = { .l_type = kind, .l_whence = SEEK_SET };
    while (fcntl(pointer->counter, F_SETLKW, &all) == -1) {
        if (errno != EINTR)
            stop_job("a shared file pointer cannot be locked: %s", strerror(errno));
    }
}

/* Opens the counter, unless nobody has moved it and it is only to be read. */
static bool open_counter(struct shared_pointer *pointer, bool is_changed)
{
    char path[PATH_MAX];
    path_of(pointer, path);
    if (pointer->counter < 0)
        pointer->counter = open(path, O_RDWR | O_CLOEXEC | (is_changed ? O_CREAT : 0), 0600);
    if (pointer->counter < 0 && (is_changed || errno != ENOENT))
        stop_job("%s cannot be opened: %s", path, strerror(errno));
    return pointer->counter >= 0;
}

/* Whether this replica moves the pointer. The next one could not know what was moved already, if it were dropped. */
static bool moves(void)
{
    need_all_teams("a replica has left the common path, and ranks share a file pointer, which needs its team");
    return teams.replica == 0;
}

/* Changes the counter, and returns what it was. Of replica 0. */
static MPI_Offset change(struct shared_pointer *pointer, MPI_Offset amount, bool is_set)
{
    MPI_Offset before = 0;
    if (!open_counter(pointer, amount || is_set))
        return 0;
    lock(pointer, F_WRLCK);
    if (pread(pointer->counter, &before, sizeof before, 0) != sizeof before)
        before = 0;
    MPI_Offset after = is_set ? amount : before + amount;
    if (after != before && pwrite(pointer->counter, &after, sizeof after, 0) != sizeof after)
        stop_job("a shared file pointer cannot be written: %s", strerror(errno));
    lock(pointer, F_UNLCK);
    return before;
}

/* Moves the pointer, and returns where it was: the same in all replicas of this rank. */
static MPI_Offset move(struct shared_pointer *pointer, MPI_Offset amount)
{
    MPI_Offset place = moves() ? change(pointer, amount, false) : 0;
    share_bytes(&place, sizeof place);
    return place;
}

/* What the first process has, for all of them. */
static void tell_all(const struct shared_pointer *pointer, void *bytes, int length)
{
    MPI_Request request;
    PMPI_Ibcast(bytes, length, MPI_BYTE, 0, pointer->comm, &request);
    complete(&request, MPI_STATUS_IGNORE);
}

int mode_without_order(int amode)
{
    return amode & MPI_MODE_RDWR ? amode : amode & ~MPI_MODE_SEQUENTIAL; /* both are an error */
}

void begin_shared_pointer(MPI_File file, MPI_Comm comm, int amode)
{
    static int opened;
    MPI_Offset size = 0;
    MPI_Request request;
    int rank;
    struct shared_pointer *pointer = malloc(sizeof *pointer);
    if (!pointer)
        stop_job("no memory for a file");
    *pointer = (struct shared_pointer){
        .file = file, .name = { teams.rank, ++opened }, .amode = amode, .counter = -1, .next = first
    };
    PMPI_Comm_rank(comm, &rank);
    pointer->is_first = rank == 0;
    PMPI_Comm_idup(comm, &pointer->comm, &request);
    complete(&request, MPI_STATUS_IGNORE);
    if (amode & MPI_MODE_APPEND && pointer->is_first && moves()) {
        PMPI_File_get_size(file, &size);
        change(pointer, size, true);
    }
    tell_all(pointer, pointer->name, sizeof pointer->name);
    first = pointer;
}

/* Nobody moves the pointer before all have come here. */
static void wait_for_all(const struct shared_pointer *pointer)
{
    MPI_Request request;
    flush_decisions();
    PMPI_Ibarrier(pointer->comm, &request);
    complete(&request, MPI_STATUS_IGNORE);
}

MPI_Offset begin_view(MPI_File file, MPI_Offset displacement)
{
    struct shared_pointer *pointer = pointer_of(file);
    MPI_Offset place;
    if (!pointer)
        return displacement;
    if (pointer->amode & MPI_MODE_SEQUENTIAL && displacement == MPI_DISPLACEMENT_CURRENT) {
        place = move(pointer, 0);
        PMPI_File_get_byte_offset(file, place, &displacement);
    }
    wait_for_all(pointer);
    if (pointer->is_first && teams.replica == 0 && change(pointer, 0, false))
        change(pointer, 0, true);
    return displacement;
}

/* The mode in which the program has opened it. */
int MPI_File_get_amode(MPI_File fh, int *amode)
{
    const struct shared_pointer *pointer = pointer_of(fh);
    int result = PMPI_File_get_amode(fh, amode);
    if (pointer)
        *amode = pointer->amode;
    return result;
}

static void forget(struct shared_pointer *pointer)
{
    struct shared_pointer **link = &first;
    while (*link != pointer)
        link = &(*link)->next;
    *link = pointer->next;
    PMPI_Comm_free(&pointer->comm);
    if (pointer->counter >= 0)
        close(pointer->counter);
    free(pointer);
}

int MPI_File_close(MPI_File *fh)
{
    struct shared_pointer *pointer = pointer_of(*fh);
    int result = PMPI_File_close(fh);
    if (pointer)
        forget(pointer);
    return result;
}

/* How far an access moves the pointer: in units of the view. */
static MPI_Offset units(MPI_File file, int count, MPI_Datatype type)
{
    MPI_Offset displacement;
    MPI_Datatype unit, view;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Count size, of_unit;
    PMPI_File_get_view(file, &displacement, &unit, &view, representation);
    PMPI_Type_size_x(type, &size);
    PMPI_Type_size_x(unit, &of_unit);
    MPI_Datatype got[] = { unit, view };
    for (int i = 0; i < 2; i++) {
        int integers, addresses, types, combiner;
        PMPI_Type_get_envelope(got[i], &integers, &addresses, &types, &combiner);
        if (combiner != MPI_COMBINER_NAMED)
            PMPI_Type_free(&got[i]);
    }
    return of_unit ? size * count / of_unit : 0;
}

/* The pointer of a file that is accessed so; null if the MPI is to say what is wrong. */
static struct shared_pointer *accessed(MPI_File file, int count, MPI_Datatype type)
{
    return count < 0 || type == MPI_DATATYPE_NULL ? NULL : pointer_of(file);
}

/* Functions that have an order by time. */
#define SHARED(name, at, buffer_type, last_type)                                                            \
    int MPI_File_##name(MPI_File fh, buffer_type buf, int count, MPI_Datatype datatype, last_type last)     \
    {                                                                                                       \
        struct shared_pointer *pointer = accessed(fh, count, datatype);                                     \
        if (!pointer)                                                                                       \
            return PMPI_File_##name(fh, buf, count, datatype, last);                                        \
        return PMPI_File_##at(fh, move(pointer, units(fh, count, datatype)), buf, count, datatype, last); \
    }
SHARED(read_shared, read_at, void *, MPI_Status *)
SHARED(write_shared, write_at, const void *, MPI_Status *)
SHARED(iread_shared, iread_at, void *, MPI_Request *)
SHARED(iwrite_shared, iwrite_at, const void *, MPI_Request *)

/* Where this process has its turn, if all take theirs in the order of their ranks. */
static MPI_Offset place_in_order(struct shared_pointer *pointer, MPI_Offset own)
{
    MPI_Request requests[2];
    MPI_Offset all = 0, before = 0, start = 0;
    flush_decisions();
    PMPI_Iallreduce(&own, &all, 1, MPI_OFFSET, MPI_SUM, pointer->comm, &requests[0]);
    PMPI_Iexscan(&own, &before, 1, MPI_OFFSET, MPI_SUM, pointer->comm, &requests[1]);
    complete(&requests[0], MPI_STATUS_IGNORE);
    complete(&requests[1], MPI_STATUS_IGNORE);
    if (pointer->is_first) {
        start = move(pointer, all);
        before = 0;
    }
    tell_all(pointer, &start, sizeof start);
    return start + before;
}

#define ORDERED(direction, buffer_type)                                                                              \
    int MPI_File_##direction##_ordered(MPI_File fh, buffer_type buf, int count, MPI_Datatype datatype,               \
                                       MPI_Status *status)                                                           \
    {                                                                                                                \
        struct shared_pointer *pointer = accessed(fh, count, datatype);                                              \
        if (!pointer)                                                                                                \
            return PMPI_File_##direction##_ordered(fh, buf, count, datatype, status);                                \
        MPI_Offset place = place_in_order(pointer, units(fh, count, datatype));                                      \
        return PMPI_File_##direction##_at_all(fh, place, buf, count, datatype, status);                              \
    }                                                                                                                \
    int MPI_File_##direction##_ordered_begin(MPI_File fh, buffer_type buf, int count, MPI_Datatype datatype)         \
    {                                                                                                                \
        struct shared_pointer *pointer = accessed(fh, count, datatype);                                              \
        if (!pointer)                                                                                                \
            return PMPI_File_##direction##_ordered_begin(fh, buf, count, datatype);                                  \
        MPI_Offset place = place_in_order(pointer, units(fh, count, datatype));                                      \
        return PMPI_File_##direction##_at_all_begin(fh, place, buf, count, datatype);                                \
    }                                                                                                                \
    int MPI_File_##direction##_ordered_end(MPI_File fh, buffer_type buf, MPI_Status *status)                         \
    {                                                                                                                \
        return pointer_of(fh) ? PMPI_File_##direction##_at_all_end(fh, buf, status)                                  \
                              : PMPI_File_##direction##_ordered_end(fh, buf, status);                                \
    }
ORDERED(read, void *)
ORDERED(write, const void *)

int MPI_File_get_position_shared(MPI_File fh, MPI_Offset *offset)
{
    struct shared_pointer *pointer = pointer_of(fh);
    if (!pointer)
        return PMPI_File_get_position_shared(fh, offset);
    *offset = move(pointer, 0);
    return MPI_SUCCESS;
}

/* A place relative to the end of the file, in units of the view. */
static MPI_Offset place_from_end(MPI_File file, MPI_Offset offset)
{
    MPI_Offset before, place;
    PMPI_File_get_position(file, &before);
    PMPI_File_seek(file, offset, MPI_SEEK_END);
    PMPI_File_get_position(file, &place);
    PMPI_File_seek(file, before, MPI_SEEK_SET);
    return place;
}

int MPI_File_seek_shared(MPI_File fh, MPI_Offset offset, int whence)
{
    struct shared_pointer *pointer = pointer_of(fh);
    if (!pointer || (whence != MPI_SEEK_SET && whence != MPI_SEEK_CUR && whence != MPI_SEEK_END))
        return PMPI_File_seek_shared(fh, offset, whence);
    MPI_Offset place = offset;
    wait_for_all(pointer);
    if (pointer->is_first && whence == MPI_SEEK_CUR)
        place += move(pointer, 0);
    if (pointer->is_first && whence == MPI_SEEK_END)
        place = place_from_end(fh, offset);
    if (pointer->is_first && place >= 0 && moves())
        change(pointer, place, true);
    tell_all(pointer, &place, sizeof place);
    return place < 0 ? PMPI_File_seek_shared(fh, place, MPI_SEEK_SET) : MPI_SUCCESS;
}
