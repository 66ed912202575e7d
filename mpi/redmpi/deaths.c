/* See deaths.h. */
#include "deaths.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "connections.h"
#include "drops.h"
#include "events.h"
#include "requests.h"
#include "teams.h"

/* How long the news of a death may be on its way. */
#define LOOKS 800
#define LOOK_NS 5000000

static bool outlives;
static _Atomic uint32_t dead;

bool outlives_deaths(void)
{
    return outlives;
}

#ifdef MPI_ERR_PROC_FAILED

#include <dlfcn.h>

bool is_death(int error)
{
    int class = MPI_SUCCESS;
    if (!outlives || error == MPI_SUCCESS || PMPI_Error_class(error, &class) != MPI_SUCCESS)
        return false;
    return class == MPI_ERR_PROC_FAILED || class == MPI_ERR_PROC_FAILED_PENDING || class == MPI_ERR_REVOKED;
}

/* Open MPI has no public call that tells. The launcher's option does not: the MPI may be built without support. */
static bool has_fault_tolerance(void)
{
    const bool *is_enabled = dlsym(RTLD_DEFAULT, "ompi_ftmpi_enabled");
    return is_enabled && *is_enabled;
}

#else

bool is_death(int error)
{
    (void)error;
    return false;
}

static bool has_fault_tolerance(void)
{
    return false;
}

#endif

void see_death(int team)
{
    if (outlives)
        atomic_fetch_or(&dead, UINT32_C(1) << team);
}

uint32_t teams_with_dead(void)
{
    static uint32_t at_last_look;
    uint32_t now = atomic_exchange(&dead, 0), count = now & at_last_look;
    at_last_look = now & ~count;
    atomic_fetch_or(&dead, at_last_look);
    return count;
}

/* A process of its own team has died, it seems. Returns after four seconds if that is not so. */
static void wait_for_drop(void)
{
    for (int i = 0; i < LOOKS && !job_is_over(); i++) {
        stay_in();
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
    }
}

bool is_death_of_ended_job(void)
{
    see_death(teams.replica);
    wait_for_drop();
    return job_is_over();
}

void begin_deaths(void)
{
    if (!getenv("RAMPART_OUTLIVE_DEATHS"))
        return;
    outlives = may_drop() && has_fault_tolerance();
    if (!outlives)
        stop_job("this MPI cannot go on without a process: --on-death drop needs Open MPI 5 with fault tolerance (ULFM)");
    PMPI_Comm_set_errhandler(teams.column, MPI_ERRORS_RETURN);
}

void leave_dead(int team)
{
    see_death(team);
    for (unsigned looks = 0; !is_out(team) && !job_is_over(); looks++)
        rest(looks);
}

bool has_ended(MPI_Request *request, int team, MPI_Status *status)
{
    int is_done = 0;
    int result = PMPI_Test(request, &is_done, status);
    if (!is_death(result))
        return is_done;
    leave_dead(team);
    return false;
}

void give_up(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL)
        return;
    PMPI_Cancel(request);
    PMPI_Request_free(request);
}
