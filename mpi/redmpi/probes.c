/* Probes: one replica looks, the others wait for the message that it saw [Fiala15, 3.3.3]. */
#include <mpi.h>

#include "decisions.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* Looks for a message that no receive of the program will take. */
static bool look(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int is_there = 0;
    advance_receives();
    /* What is held back would take it first; with the one who decides, the MPI knows of all receives. */
    if (!decides() && is_held_back(comm, source, tag))
        return false;
    PMPI_Iprobe(source, tag, comm, &is_there, status);
    return is_there;
}

static void wait_for(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    flush_decisions();
    for (unsigned looks = 0; !look(source, tag, comm, status); looks++)
        rest(looks);
}

/* The others wait for what was seen. */
static void share(MPI_Status *status, MPI_Comm comm)
{
    struct decision decision = { .kind = DECISION_FOUND };
    if (decides()) {
        decision.numbers[0] = status->MPI_SOURCE;
        decision.numbers[1] = status->MPI_TAG;
        tell_decision(&decision);
        return;
    }
    must_hear(&decision);
    wait_for(decision.numbers[0], decision.numbers[1], comm, status);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Probe(source, tag, comm, status);
    MPI_Status own;
    comm = real_comm(comm);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    begin_wait("message", shadow_of(comm), source, tag);
    if (decides())
        wait_for(source, tag, comm, status);
    share(status, comm);
    end_wait();
    return MPI_SUCCESS;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Iprobe(source, tag, comm, flag, status);
    MPI_Status own;
    comm = real_comm(comm);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    *flag = decides() && look(source, tag, comm, status);
    if (decides() && !*flag) {
        tell_nothing();
        return MPI_SUCCESS;
    }
    struct decision decision = { .kind = DECISION_FOUND };
    if (decides()) {
        share(status, comm);
    } else {
        *flag = hear_decision(&decision);
        if (*flag)
            wait_for(decision.numbers[0], decision.numbers[1], comm, status);
    }
    return MPI_SUCCESS;
}
