/* Communicators of the program: each new one gets a shadow. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "communicators.h"
#include "decisions.h"
#include "digest.h"
#include "drops.h"
#include "duplicates.h"
#include "events.h"
#include "history.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* Tells all replicas of this rank some bytes, and hears theirs; of those that are dropped meanwhile, nothing. */
static void exchange_in_column(const void *own, void *all, int bytes)
{
    MPI_Request sends[MOST_REPLICAS], receives[MOST_REPLICAS];
    /* What the MPI may still use when a team is dropped must stay. */
    char *room = malloc((size_t)(bytes * (teams.replicas + 1)));
    if (!room)
        stop_job("no memory for a communicator");
    memcpy(room + bytes * teams.replicas, own, (size_t)bytes);
    for (int i = 0; i < teams.replicas; i++) {
        PMPI_Irecv(room + bytes * i, bytes, MPI_BYTE, i, TAG_SHARED, teams.column, &receives[i]);
        PMPI_Isend(room + bytes * teams.replicas, bytes, MPI_BYTE, i, TAG_SHARED, teams.column, &sends[i]);
    }
    flush_decisions();
    for (int i = 0; i < teams.replicas; i++) {
        complete_with(&receives[i], i);
        complete_with(&sends[i], i);
    }
    memcpy(all, room, (size_t)(bytes * teams.replicas));
    if (!teams_out())
        free(room);
}

/* Some are made of what a node has, or as the MPI likes it: they must be alike in all teams. */
static void check_same(MPI_Comm comm)
{
    int size = 0, rank = 0;
    if (comm != MPI_COMM_NULL) {
        PMPI_Comm_size(comm, &size);
        PMPI_Comm_rank(comm, &rank);
    }
    const int own[2] = { size, rank };
    int all[MOST_REPLICAS][2];
    exchange_in_column(own, all, sizeof own);
    for (int i = 0; i < teams.replicas; i++) {
        if (!is_out(i) && memcmp(all[i], own, sizeof own))
            stop_job("a communicator has other ranks in each team, since these lie on nodes in different ways");
    }
}

void meet(MPI_Comm comm)
{
    MPI_Request request;
    flush_decisions();
    await_duplicates(comm);
    begin_wait("meeting", NULL, -1, -1);
    if (PMPI_Ibarrier(comm, &request) == MPI_SUCCESS)
        complete(&request, MPI_STATUS_IGNORE);
    end_wait();
}

void after_new_communicator(MPI_Comm comm)
{
    record_step(STEP_COMMUNICATOR, 0, 0, 0);
    stay_in();
    check_same(comm);
    if (comm != MPI_COMM_NULL)
        shadow_begin(comm);
}

/* What the MPI knows only of the world is found there. */
static int attribute(MPI_Comm comm, int key, void *value, int *flag)
{
    int result = PMPI_Comm_get_attr(real_comm(comm), key, value, flag);
    if (result == MPI_SUCCESS && !*flag && comm == MPI_COMM_WORLD)
        result = PMPI_Comm_get_attr(comm, key, value, flag);
    return result;
}

int MPI_Comm_get_attr(MPI_Comm comm, int comm_keyval, void *attribute_val, int *flag)
{
    return attribute(comm, comm_keyval, attribute_val, flag);
}

int MPI_Attr_get(MPI_Comm comm, int keyval, void *attribute_val, int *flag)
{
    return attribute(comm, keyval, attribute_val, flag);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    shadow_forget();
    return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    shadow_forget();
    flush_decisions();
    return PMPI_Comm_disconnect(comm);
}
