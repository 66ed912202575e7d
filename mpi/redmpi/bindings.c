/* See bindings.h. */
#include "bindings.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "events.h"
#include "teams.h"

/* What stands for a buffer, under the names of all libraries. Open MPI has it at a symbol itself, under each name that
 * compilers give to it; MPICH has a pointer to it. */
static const struct {
    const char *symbol;
    bool is_pointer;
    void *of_c;
} stand_ins[] = {
    { "mpi_fortran_bottom_", false, MPI_BOTTOM },      { "mpi_fortran_bottom", false, MPI_BOTTOM },
    { "mpi_fortran_bottom__", false, MPI_BOTTOM },     { "MPI_FORTRAN_BOTTOM", false, MPI_BOTTOM },
    { "mpi_fortran_in_place_", false, MPI_IN_PLACE },  { "mpi_fortran_in_place", false, MPI_IN_PLACE },
    { "mpi_fortran_in_place__", false, MPI_IN_PLACE }, { "MPI_FORTRAN_IN_PLACE", false, MPI_IN_PLACE },
    { "MPIR_F_MPI_BOTTOM", true, MPI_BOTTOM },         { "MPIR_F_MPI_IN_PLACE", true, MPI_IN_PLACE },
    { "MPIR_F08_MPI_BOTTOM", false, MPI_BOTTOM },      { "MPIR_F08_MPI_IN_PLACE", false, MPI_IN_PLACE },
};

#define STAND_INS (sizeof stand_ins / sizeof *stand_ins)

/* MPICH sets its pointers in the first call of its own functions of Fortran. */
void pmpi_initialized_(MPI_Fint *flag, MPI_Fint *error) __attribute__((weak));

void *buffer_from_fortran(void *buffer)
{
    static void *places[STAND_INS];
    static bool are_known;
    MPI_Fint flag, error;
    if (!are_known && pmpi_initialized_)
        pmpi_initialized_(&flag, &error);
    for (size_t i = 0; i < STAND_INS && !are_known; i++) {
        places[i] = dlsym(RTLD_DEFAULT, stand_ins[i].symbol);
        if (places[i] && stand_ins[i].is_pointer)
            places[i] = *(void **)places[i];
    }
    are_known = true;
    for (size_t i = 0; i < STAND_INS; i++) {
        if (places[i] && places[i] == buffer)
            return stand_ins[i].of_c;
    }
    return buffer;
}

void status_to_fortran(const MPI_Status *from, MPI_Fint *status)
{
    buffer_from_fortran(status);
    if (status != MPI_F_STATUS_IGNORE && status != MPI_F_STATUSES_IGNORE)
        PMPI_Status_c2f(from, status);
}

MPI_Fint team_in_fortran(MPI_Fint comm)
{
    return teams.is_quiet || comm != PMPI_Comm_c2f(MPI_COMM_WORLD) ? comm : PMPI_Comm_c2f(teams.team);
}

int small(int64_t count, const char *function)
{
    if (count > INT_MAX)
        stop_job("%s with a count of %lld: one above %d is not supported", function, (long long)count, INT_MAX);
    return count < 0 ? -1 : (int)count;
}
