/* See teams.h. */
#include "teams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commons.h"
#include "deaths.h"
#include "drops.h"
#include "events.h"
#include "handlers.h"
#include "map.h"
#include "partitions.h"
#include "requests.h"

struct teams teams = { .is_quiet = true };

/* The attribute of a communicator that is its shadow. */
static int shadow_key = MPI_KEYVAL_INVALID;

/* That of MPI_Comm_idup which does not know yet which common communicator it gets. */
static struct shadow *wishing;

/* This process has called MPI_Init. */
static bool has_begun;

/* Shadows made so far: the same in all teams, since all run the same program. */
static int shadows;

static int number_in(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

bool refuses(void)
{
    return !teams.is_quiet || (!has_begun && number_in("RAMPART_REPLICAS") > 1);
}

struct shadow *shadow_hold(struct shadow *shadow)
{
    if (shadow)
        shadow->users++;
    return shadow;
}

void shadow_release(struct shadow *shadow)
{
    if (!shadow || --shadow->users)
        return;
    if (shadow->common >= 0)
        return_common(shadow->common);
    else if (!teams_out())
        PMPI_Comm_free(&shadow->comm);
    free(shadow->ranks);
    free(shadow);
}

static int free_shadow(MPI_Comm comm, int key, void *attribute, void *unused)
{
    (void)comm, (void)key, (void)unused;
    shadow_release(attribute);
    return MPI_SUCCESS;
}

static void *room_for(int ints)
{
    void *room = malloc(sizeof(int) * (size_t)(ints + 1));
    if (!room)
        stop_job("no memory for a communicator");
    return room;
}

/* A communicator of ranks in some teams, ordered by team. Only its members call this, so there may be any number of
 * others at the same time; MPI_Comm_split would take all processes. */
static void create_comm(const int *ranks, int size, int first_team, int teams_in_it, MPI_Comm *comm)
{
    MPI_Group world, all;
    int *natives = room_for(size * teams_in_it);
    for (int team = 0; team < teams_in_it; team++)
        for (int i = 0; i < size; i++)
            natives[team * size + i] = native_of(ranks[i], first_team + team, teams.ranks);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_incl(world, size * teams_in_it, natives, &all);
    PMPI_Comm_create_group(MPI_COMM_WORLD, all, 0, comm);
    PMPI_Group_free(&world);
    PMPI_Group_free(&all);
    free(natives);
}

static void make_team_and_column(void)
{
    int *ranks = room_for(teams.ranks);
    for (int i = 0; i < teams.ranks; i++)
        ranks[i] = i;
    create_comm(ranks, teams.ranks, teams.replica, 1, &teams.team);
    create_comm(&teams.rank, 1, 0, teams.replicas, &teams.column);
    free(ranks);
}

/* A child of the program is no replica. */
static void leave_teams(void)
{
    teams.is_quiet = true;
}

void begin_teams(void)
{
    int size, native;
    has_begun = true;
    teams.replicas = number_in("RAMPART_REPLICAS");
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Comm_rank(MPI_COMM_WORLD, &native);
    if (teams.replicas < 2)
        teams.replicas = 0;
    if (!teams.replicas)
        return;
    if (size == 1)
        stop_job("the launcher has started each process as a job of its own, as Slurm does without the right --mpi=");
    if (size % teams.replicas)
        stop_job("%d processes cannot be %d replicas each", size, teams.replicas);
    teams.ranks = size / teams.replicas;
    struct seat seat = seat_of(native, teams.ranks);
    teams.rank = seat.rank;
    teams.replica = seat.replica;
    make_team_and_column();
    PMPI_Comm_set_name(teams.team, "MPI_COMM_WORLD");
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_shadow, &shadow_key, NULL);
    begin_drops();
    begin_deaths();
    begin_handlers();
    if (may_drop())
        begin_commons();
    shadow_begin(teams.team);
    shadow_begin(MPI_COMM_SELF);
    teams.parts = MPI_COMM_NULL;
    if (HAS_PARTITIONS) {
        duplicate_alone(teams.team, &teams.parts);
        shadow_begin(teams.parts);
    }
    pthread_atfork(NULL, NULL, leave_teams);
    teams.thread = pthread_self();
    teams.is_quiet = false;
}

void end_teams(void)
{
    if (!teams.replicas)
        return;
    teams.is_quiet = true;
    shadow_forget();
    PMPI_Comm_delete_attr(MPI_COMM_SELF, shadow_key);
    if (may_drop() && !teams_out())
        end_commons();
    /* To free a communicator may take all of its members. */
    if (!teams_out()) {
        if (HAS_PARTITIONS)
            PMPI_Comm_free(&teams.parts);
        PMPI_Comm_free(&teams.column);
        PMPI_Comm_free(&teams.team);
    }
    PMPI_Comm_free_keyval(&shadow_key);
}

int *ranks_in(MPI_Comm comm, MPI_Group group, int *size)
{
    MPI_Group all;
    PMPI_Group_size(group, size);
    int *own = room_for(*size), *ranks = room_for(*size);
    for (int i = 0; i < *size; i++)
        own[i] = i;
    PMPI_Comm_group(comm, &all);
    PMPI_Group_translate_ranks(group, *size, own, all, ranks);
    PMPI_Group_free(&all);
    free(own);
    return ranks;
}

/* The ranks in the team of a group's members; frees the group. */
static int *ranks_of(MPI_Group *group, int *size)
{
    int *ranks = ranks_in(teams.team, *group, size);
    PMPI_Group_free(group);
    return ranks;
}

/* The ranks in the team of all members, in the same order for each of them. Fills in what the shadow has of them. */
static int *members(MPI_Comm comm, struct shadow *shadow)
{
    MPI_Group group;
    int is_between_groups, own_size;
    PMPI_Comm_group(comm, &group);
    int *own = ranks_of(&group, &own_size);
    shadow->size = shadow->peers = own_size;
    PMPI_Comm_test_inter(comm, &is_between_groups);
    if (!is_between_groups)
        return own;
    PMPI_Comm_remote_group(comm, &group);
    int *peers = ranks_of(&group, &shadow->peers);
    shadow->size = own_size + shadow->peers;
    shadow->first_peer = own[0] < peers[0] ? own_size : 0;
    int *all = room_for(shadow->size);
    memcpy(all + (shadow->first_peer ? 0 : shadow->peers), own, sizeof *all * (size_t)own_size);
    memcpy(all + shadow->first_peer, peers, sizeof *all * (size_t)shadow->peers);
    free(own);
    free(peers);
    return all;
}

void shadow_begin(MPI_Comm comm)
{
    struct shadow *shadow = malloc(sizeof *shadow);
    if (!shadow)
        stop_job("no memory for a communicator");
    *shadow = (struct shadow){ .number = ++shadows, .users = 1, .being_made = MPI_REQUEST_NULL };
    shadow->ranks = members(comm, shadow);
    shadow->common = may_drop() ? take_common(comm) : COMMON_NONE;
    if (shadow->common >= 0) {
        shadow->comm = common_at(shadow->common);
        shadow_attach(comm, shadow);
        return;
    }
    if (may_drop() && teams_out())
        stop_job("a replica has left the common path, and more than %d communicators cannot be made without its team",
                 COMMONS - COMMONS_OF_IDUP);
    create_comm(shadow->ranks, shadow->size, 0, teams.replicas, &shadow->comm);
    /* A copy that is longer than the receiver expects is an error of its sender, and is voted on. */
    PMPI_Comm_set_errhandler(shadow->comm, MPI_ERRORS_RETURN);
    shadow_attach(comm, shadow);
}

bool shadow_is_made(struct shadow *shadow)
{
    int is_made;
    if (shadow->common != COMMON_WISHED) {
        PMPI_Test(&shadow->being_made, &is_made, MPI_STATUS_IGNORE);
        return is_made;
    }
    if (!get_wish(&shadow->common))
        return false;
    wishing = NULL;
    if (shadow->common < 0)
        stop_job("more than %d communicators of MPI_Comm_idup at a time, which is not supported", COMMONS_OF_IDUP);
    shadow->comm = common_at(shadow->common);
    return true;
}

void await_shadow(struct shadow *shadow)
{
    for (unsigned looks = 0; !shadow_is_made(shadow); looks++)
        wait_on(looks);
}

struct shadow *shadow_duplicate(const struct shadow *shadow, MPI_Comm comm)
{
    struct shadow *other = malloc(sizeof *other);
    if (!other)
        stop_job("no memory for a communicator");
    *other = *shadow;
    other->ranks = room_for(shadow->size);
    memcpy(other->ranks, shadow->ranks, sizeof *other->ranks * (size_t)shadow->size);
    other->tables = NULL;
    other->number = ++shadows;
    other->users = 1;
    other->being_made = MPI_REQUEST_NULL;
    bool is_of_all = shadow->size == teams.ranks;
    if (shadow->common < 0 || is_of_all) {
        other->common = shadow->common < 0 ? shadow->common : COMMON_COPIED;
        if (may_drop())
            need_all_teams("a replica has left the common path, and the program has called MPI_Comm_idup");
        PMPI_Comm_idup(shadow->comm, &other->comm, &other->being_made);
        return other;
    }
    /* One after the other: a wish must know what an earlier one has got. */
    if (wishing)
        await_shadow(wishing);
    wish_common(comm);
    other->common = COMMON_WISHED;
    wishing = other;
    return other;
}

void shadow_attach(MPI_Comm comm, struct shadow *shadow)
{
    PMPI_Comm_set_attr(comm, shadow_key, shadow);
}

/* Nearly all programs use one communicator at a time. */
static MPI_Comm last = MPI_COMM_NULL;
static struct shadow *last_shadow;

void shadow_forget(void)
{
    last = MPI_COMM_NULL;
}

struct shadow *shadow_of(MPI_Comm comm)
{
    if (comm == last && comm != MPI_COMM_NULL)
        return last_shadow;
    void *value = NULL;
    int is_there = 0;
    if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, shadow_key, &value, &is_there) != MPI_SUCCESS)
        return NULL;
    last_shadow = is_there ? value : NULL;
    last = comm;
    return last_shadow;
}

struct shadow *needed_shadow(MPI_Comm comm)
{
    struct shadow *shadow = shadow_of(comm);
    if (!shadow)
        stop_job("a message on a communicator that was made in a way that is not supported");
    return shadow;
}
