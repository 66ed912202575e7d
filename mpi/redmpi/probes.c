/* See probes.h. */
#include "probes.h"

#include <limits.h>

#include "decisions.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* Looks for a message that no receive of the program will take. */
static bool look(int source, int tag, const struct probe *probe)
{
    int is_there = 0;
    advance_receives();
    /* What is held back would take it first; with the one who decides, the MPI knows of all receives. */
    if (!leads() && is_held_back(probe->comm, source, tag))
        return false;
    if (probe->message)
        PMPI_Improbe(source, tag, probe->comm, &is_there, probe->message, probe->status);
    else
        PMPI_Iprobe(source, tag, probe->comm, &is_there, probe->status);
    return is_there;
}

static bool look_for_any(void *what, struct decision *decision)
{
    const struct probe *probe = what;
    if (!look(probe->source, probe->tag, probe))
        return false;
    decision->numbers[0] = probe->status->MPI_SOURCE;
    decision->numbers[1] = probe->status->MPI_TAG;
    return true;
}

/* The others wait for what was seen. */
static bool look_for_this(void *what, const struct decision *decision)
{
    return look(decision->numbers[0], decision->numbers[1], what);
}

bool probe(struct probe *probe, bool waits)
{
    struct decision unused;
    return decide(&(struct choice){ .kind = DECISION_FOUND, .waits = waits, .look = look_for_any,
                                    .is_ready = look_for_this, .what = probe }, &unused);
}

static bool is_tag(int tag)
{
    static int most;
    int *bound, is_set;
    if (!most) {
        PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &is_set);
        most = is_set ? *bound : INT_MAX;
    }
    return tag == MPI_ANY_TAG || (tag >= 0 && tag <= most);
}

int error_of_probe(const struct probe *probe)
{
    int is_there;
    const struct shadow *shadow = shadow_of(probe->comm);
    int peers = shadow ? shadow->peers : 0;
    bool is_source = probe->source == MPI_ANY_SOURCE || (probe->source >= 0 && probe->source < peers);
    if (shadow && is_source && is_tag(probe->tag))
        return MPI_SUCCESS;
    return PMPI_Iprobe(probe->source, probe->tag, probe->comm, &is_there, MPI_STATUS_IGNORE);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (teams.is_quiet || source == MPI_PROC_NULL)
        return PMPI_Probe(source, tag, comm, status);
    MPI_Status own;
    struct probe wish = { source, tag, real_comm(comm), NULL, status == MPI_STATUS_IGNORE ? &own : status };
    int error = error_of_probe(&wish);
    if (error != MPI_SUCCESS)
        return error;
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
    struct probe wish = { source, tag, real_comm(comm), NULL, status == MPI_STATUS_IGNORE ? &own : status };
    int error = error_of_probe(&wish);
    if (error != MPI_SUCCESS)
        return error;
    *flag = probe(&wish, false);
    return MPI_SUCCESS;
}
