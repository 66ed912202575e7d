/* The beginning and the end of a process, and what one replica decides of the time. */
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "connections.h"
#include "deaths.h"
#include "decisions.h"
#include "drops.h"
#include "envelopes.h"
#include "events.h"
#include "history.h"
#include "identity.h"
#include "injector.h"
#include "leaving.h"
#include "life.h"
#include "log.h"
#include "progress.h"
#include "protocol.h"
#include "requests.h"
#include "teams.h"
#include "timesteps.h"
#include "waits.h"

void begin_replica(void)
{
    if (!teams.is_quiet)
        return;
    begin_log();
    begin_teams();
    if (teams.is_quiet)
        return;
    begin_events(teams.rank, teams.replica);
    begin_progress(teams.rank, teams.replica);
    share_node();
    char node[MPI_MAX_PROCESSOR_NAME];
    int length;
    PMPI_Get_processor_name(node, &length);
    const char *named = getenv("RAMPART_NODE");
    if (!named && getenv("RAMPART_SLURM"))
        named = getenv("SLURMD_NODENAME");
    tell("begin %s", named ? named : node);
    tell("process %d", real_pid());
    tell("began at %lld", event_time());
    begin_timesteps();
    begin_waits();
    begin_injector();
    begin_connections();
    begin_decisions();
    begin_leaving();
}

/* A replica that has left the path may come to the end, too. */
static void compare_ends(void)
{
    uint64_t own[3] = { [2] = logged() }, all[MOST_REPLICAS][3];
    own[0] = steps_done(&own[1]);
    MPI_Request request;
    PMPI_Iallgather(own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, teams.column, &request);
    complete_alone(&request);
    for (int i = 0; i < teams.replicas; i++) {
        if (memcmp(all[i], own, sizeof own))
            leave_path("replicas %d and %d of rank %d do different things until they end: an error has changed what "
                       "one of them does",
                       teams.replica, i, teams.rank);
    }
}

static void wait_for_replicas(void)
{
    MPI_Request request;
    PMPI_Ibarrier(teams.column, &request);
    complete_alone(&request);
}

/* All replicas are there, and have done the same. */
static void meet_all(void)
{
    wait_for_replicas();
    compare_ends();
    finish_log();
    wait_for_replicas();
}

void end_replica(void)
{
    if (teams.is_quiet)
        return;
    record_step(STEP_END, 0, 0, 0);
    begin_wait("MPI_Finalize", NULL, -1, -1);
    end_decisions();
    end_envelopes();
    leave_connections();
    if (may_drop())
        meet_those_left();
    else
        meet_all();
    end_connections();
    end_wait();
    struct tally tally = connections_tally();
    end_teams();
    struct sent sent = sent_so_far();
    tell("end compared %llu differed %llu replaced %llu steps %llu messages %llu bytes %llu",
         (unsigned long long)tally.compared, (unsigned long long)tally.differed, (unsigned long long)tally.replaced,
         (unsigned long long)timestep(), (unsigned long long)sent.messages, (unsigned long long)sent.bytes);
    if (compares_later())
        tell("comparer cpu %llu of %llu", (unsigned long long)tally.thread_ns,
             (unsigned long long)cpu_time(CLOCK_PROCESS_CPUTIME_ID));
}

/* The program ends without MPI_Finalize, by its own will. */
__attribute__((destructor)) static void leave_early(void)
{
    if (teams.is_quiet)
        return;
    leave_with_others(OUT_BY_EXIT, 0);
    tell("left at %lld", event_time());
    let_others_compare();
}

int MPI_Init(int *argc, char ***argv)
{
    int result = PMPI_Init(argc, argv);
    if (result == MPI_SUCCESS)
        begin_replica();
    return result;
}

/* Calls of several threads at once have no order that replicas could share. */
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int result = PMPI_Init_thread(argc, argv, required > MPI_THREAD_SERIALIZED ? MPI_THREAD_SERIALIZED : required,
                                  provided);
    if (result == MPI_SUCCESS)
        begin_replica();
    return result;
}

/* Each process sends an empty message to each, and waits for those of all. In MPI_Finalize, MPICH 4.0 waits until its
 * messages have left, and then for all other processes without receiving any: one that got there early would keep the
 * messages of others from leaving. Between two processes, MPICH sends in order, so all small ones have left then. */
static void flush_messages(void)
{
    int size, are_done = 0;
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Request *requests = malloc(2 * (size_t)size * sizeof *requests);
    if (!requests)
        return;
    for (int i = 0; i < size; i++) {
        PMPI_Irecv(NULL, 0, MPI_BYTE, i, TAG_NONE, MPI_COMM_WORLD, &requests[i]);
        PMPI_Isend(NULL, 0, MPI_BYTE, i, TAG_NONE, MPI_COMM_WORLD, &requests[size + i]);
    }
    while (PMPI_Testall(2 * size, requests, &are_done, MPI_STATUSES_IGNORE), !are_done)
        sched_yield();
    free(requests);
}

int finalize_mpi(void)
{
    if (!teams.replicas || !teams_out())
        return PMPI_Finalize();
    /* Open MPI 5.0.11 may wait for a dead process there for ever. Its launcher accepts that none finalizes. */
    if (outlives_deaths())
        return MPI_SUCCESS;
    flush_messages();
    fflush(stdout);
    int before = dup(STDOUT_FILENO), nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nothing, STDOUT_FILENO);
    int result = PMPI_Finalize();
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(nothing);
    close(before);
    return result;
}

int MPI_Finalize(void)
{
    end_replica();
    return finalize_mpi();
}

/* Of the whole job, whichever communicator is meant. */
int MPI_Abort(MPI_Comm comm, int errorcode)
{
    if (teams.is_quiet)
        return PMPI_Abort(comm, errorcode);
    leave_with_others(OUT_BY_ABORT, errorcode);
    tell("aborted by the program with %d", errorcode);
    let_others_compare();
    return PMPI_Abort(MPI_COMM_WORLD, errorcode);
}

static bool give_time(void *what, struct decision *decision)
{
    decision->seconds = *(double *)what;
    return true;
}

static double decided_time(double own)
{
    struct decision decision;
    if (teams.is_quiet || !pthread_equal(pthread_self(), teams.thread))
        return own;
    decide(&(struct choice){ .kind = DECISION_TIME, .waits = true, .look = give_time, .what = &own }, &decision);
    return decision.seconds;
}

double MPI_Wtime(void)
{
    return decided_time(PMPI_Wtime());
}

double MPI_Wtick(void)
{
    return decided_time(PMPI_Wtick());
}

/* That of the first replica, in all. */
int MPI_Get_processor_name(char *name, int *resultlen)
{
    const char *shared = shared_node();
    if (teams.is_quiet || !*shared)
        return PMPI_Get_processor_name(name, resultlen);
    *resultlen = snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s", shared);
    return MPI_SUCCESS;
}
