/* Probes: one replica looks, the others wait for the message that it saw [Fiala15, 3.3.3]. */
#include <mpi.h>

#include "decisions.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* What the program asks for. */
struct probe {
    int source, tag;
    MPI_Comm comm;
    MPI_Status *status;
};

/* Looks for a message that no receive of the program will take. */
static bool look(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int is_there = 0;
    advance_receives();
    /* What is held back would take it first; with the one who decides, the MPI knows of all receives. */
    if (!leads() && is_held_back(comm, source, tag))
        return false;
    PMPI_Iprobe(source, tag, comm, &is_there, status);
    return is_there;
}

static bool look_for_any(void *what, struct decision *decision)
{
    const struct probe *probe = what;
    if (!look(probe->source, probe->tag, probe->comm, probe->status))
        return false;
    decision->numbers[0] = probe->status->MPI_SOURCE;
    decision->numbers[1] = probe->status->MPI_TAG;
    return true;
}

/* The others wait for what was seen. */
static bool look_for_this(void *what, const struct decision *decision)
{
    const struct probe *probe = what;
    return look(decision->numbers[0], decision->numbers[1], probe->comm, probe->status);
}

static bool probe(struct probe *probe, bool waits)
{
    struct decision unused;
    return decide(&(struct choice){ .kind = DECISION_FOUND, .waits = waits, .look = look_for_any,
                                    .is_ready = look_for_this, .what = probe }, &unused);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Probe(source, tag, comm, status);
    MPI_Status own;
    struct probe wish = { source, tag, real_comm(comm), status == MPI_STATUS_IGNORE ? &own : status };
    begin_wait("message", shadow_of(wish.comm), source, tag);
    probe(&wish, true);
    end_wait();
    return MPI_SUCCESS;
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Iprobe(source, tag, comm, flag, status);
    MPI_Status own;
    struct probe wish = { source, tag, real_comm(comm), status == MPI_STATUS_IGNORE ? &own : status };
    *flag = probe(&wish, false);
    return MPI_SUCCESS;
}
