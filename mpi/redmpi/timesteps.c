/* See timesteps.h. */
#include "timesteps.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

#include "callers.h"
#include "fortran.h"

static uint64_t now;
static bool counts_a_function;

void begin_timesteps(void)
{
    counts_a_function = getenv("RAMPART_STEP") != NULL;
}

uint64_t timestep(void)
{
    return now;
}

void rampart_timestep(const void *caller)
{
    now += !comes_from_mpi(caller);
}

int MPI_Pcontrol(const int level, ...)
{
    now += !counts_a_function;
    return PMPI_Pcontrol(level);
}

/* In Fortran, it has no error. */
FORTRAN(mpi_pcontrol, MPI_PCONTROL, (MPI_Fint * level))
{
    MPI_Pcontrol(*level);
}
