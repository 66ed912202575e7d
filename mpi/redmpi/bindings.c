/* See bindings.h. */
#include "bindings.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "events.h"
#include "fortran.h"
#include "teams.h"

/* What stands for a buffer or for weights. */
#define MOST_STAND_INS 32
static struct stand_in {
    void *place, *of_c;
} stand_ins[MOST_STAND_INS];
static int stand_ins_known;

static void *place_of(const char *symbol)
{
    return dlsym(RTLD_DEFAULT, symbol);
}

static void learn(void *place, const void *of_c)
{
    if (place)
        stand_ins[stand_ins_known++] = (struct stand_in){ place, (void *)of_c };
}

/* Open MPI has it at a symbol itself, under each name that compilers give to it, for Fortran 2008 as well. */
static void learn_of_open_mpi(const char *name, const char *capitals, const void *of_c)
{
    char symbol[64];
    for (const char *const *end = (const char *const[]){ "", "_", "__", NULL }; *end; end++) {
        snprintf(symbol, sizeof symbol, "%s%s", name, *end);
        learn(place_of(symbol), of_c);
    }
    learn(place_of(capitals), of_c);
}

/* MPICH has a pointer to it, and for Fortran 2008 the place itself, or a variable of a module. */
static void learn_of_mpich(const char *pointer, const char *place, const void *of_c)
{
    void **known = place_of(pointer);
    learn(known ? *known : NULL, of_c);
    learn(place_of(place), of_c);
}

/* MPICH sets its pointers in the first call of its own functions of Fortran. */
void pmpi_initialized_(MPI_Fint *flag, MPI_Fint *error) __attribute__((weak));

static void learn_stand_ins(void)
{
    MPI_Fint flag, error;
    if (pmpi_initialized_)
        pmpi_initialized_(&flag, &error);
    learn_of_open_mpi("mpi_fortran_bottom", "MPI_FORTRAN_BOTTOM", MPI_BOTTOM);
    learn_of_open_mpi("mpi_fortran_in_place", "MPI_FORTRAN_IN_PLACE", MPI_IN_PLACE);
    learn_of_open_mpi("mpi_fortran_unweighted", "MPI_FORTRAN_UNWEIGHTED", MPI_UNWEIGHTED);
    learn_of_open_mpi("mpi_fortran_weights_empty", "MPI_FORTRAN_WEIGHTS_EMPTY", MPI_WEIGHTS_EMPTY);
    learn_of_mpich("MPIR_F_MPI_BOTTOM", "MPIR_F08_MPI_BOTTOM", MPI_BOTTOM);
    learn_of_mpich("MPIR_F_MPI_IN_PLACE", "MPIR_F08_MPI_IN_PLACE", MPI_IN_PLACE);
    learn_of_mpich("MPIR_F_MPI_UNWEIGHTED", "__mpi_f08_link_constants_MOD_mpi_unweighted", MPI_UNWEIGHTED);
    learn_of_mpich("MPIR_F_MPI_WEIGHTS_EMPTY", "__mpi_f08_link_constants_MOD_mpi_weights_empty", MPI_WEIGHTS_EMPTY);
}

void *buffer_from_fortran(void *buffer)
{
    if (!stand_ins_known)
        learn_stand_ins();
    for (int i = 0; i < stand_ins_known; i++) {
        if (stand_ins[i].place == buffer)
            return stand_ins[i].of_c;
    }
    return buffer;
}

void status_to_fortran(const MPI_Status *from, MPI_Fint *status)
{
    buffer_from_fortran(status);
    if (!is_status_ignored(status))
        PMPI_Status_c2f(from, status);
}

MPI_Fint team_in_fortran(MPI_Fint comm)
{
    return teams.is_quiet || comm != PMPI_Comm_c2f(MPI_COMM_WORLD) ? comm : PMPI_Comm_c2f(teams.team);
}

int small(int64_t number, const char *function)
{
    if (number > INT_MAX)
        stop_job("%s with %lld: more than %d is not supported there", function, (long long)number, INT_MAX);
    return number < 0 ? -1 : (int)number;
}

struct elements few(MPI_Count count, MPI_Datatype type)
{
    struct elements elements = { .count = count < 0 ? -1 : (int)count, .type = type };
    if (count <= INT_MAX || type == MPI_DATATYPE_NULL)
        return elements;
    elements.count = 1;
    elements.is_made = true;
#if MPI_VERSION >= 4
    PMPI_Type_contiguous_c(count, type, &elements.type);
#endif
    PMPI_Type_commit(&elements.type);
    return elements;
}

void forget_few(struct elements *elements)
{
    if (elements->is_made)
        PMPI_Type_free(&elements->type);
}

MPI_Datatype *types_from_fortran(const MPI_Fint *types, int count)
{
    MPI_Datatype *list = malloc(sizeof *list * (size_t)(count + 1));
    if (!list)
        stop_job("no memory for %d types", count);
    for (int i = 0; i < count; i++)
        list[i] = PMPI_Type_f2c(types[i]);
    return list;
}

void forget_types(MPI_Datatype *types)
{
    free(types);
}
