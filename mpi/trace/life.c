/* The calls of life.h, written by hand: they begin and end recording. */
#include "life.h"

#include <stdlib.h>

#include "calls.h"
#include "fortran.h"
#include "record.h"

static MPI_Group world = MPI_GROUP_NULL;

void tell_communicator(MPI_Comm comm)
{
    int between_groups = 0, size = 0;
    PMPI_Comm_test_inter(comm, &between_groups);
    if (between_groups) {
        after_other("communication between groups (MPI_Intercomm)");
        return;
    }
    MPI_Group group;
    PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &size);
    put_record(RECORD_COMMUNICATOR);
    put_communicator(HANDLE(comm));
    put((uint64_t)size);
    for (int i = 0; i < size; i++) {
        int member;
        PMPI_Group_translate_ranks(group, 1, &i, world, &member);
        put((uint64_t)member);
    }
    PMPI_Group_free(&group);
}

/* After MPI_Init of any kind. A barrier, so that all ranks count from one moment. */
static void initialised(int threads)
{
    int rank, ranks, ranks_of_node = 1;
    MPI_Comm node;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    PMPI_Comm_size(node, &ranks_of_node);
    PMPI_Comm_free(&node);
    PMPI_Barrier(MPI_COMM_WORLD);
    begin(rank, ranks, ranks_of_node);
    tell_communicator(MPI_COMM_WORLD);
    tell_communicator(MPI_COMM_SELF);
    if (threads == MPI_THREAD_MULTIPLE)
        after_other("several threads at once (MPI_THREAD_MULTIPLE)");
    flush_records();
}

int MPI_Init(int *argc, char ***argv)
{
    bool own = enter();
    int result = PMPI_Init(argc, argv);
    if (own && result == MPI_SUCCESS)
        initialised(MPI_THREAD_SINGLE);
    leave();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    bool own = enter();
    int result = PMPI_Init_thread(argc, argv, required, provided);
    if (own && result == MPI_SUCCESS)
        initialised(*provided < required ? *provided : required);
    leave();
    return result;
}

int MPI_Finalize(void)
{
    if (enter())
        end();
    if (world != MPI_GROUP_NULL)
        PMPI_Group_free(&world);
    int result = PMPI_Finalize();
    leave();
    return result;
}

int MPI_Abort(MPI_Comm comm, int errorcode)
{
    flush_records();
    return PMPI_Abort(comm, errorcode);
}

/* Fortran's entry points are forwarded to Fortran's, which may do more than those of C. */
FORTRAN(mpi_init, MPI_INIT, (MPI_Fint * error))
{
    ERROR_IS_OPTIONAL(error);
    bool own = enter();
    pmpi_init_(error);
    if (own && *error == MPI_SUCCESS)
        initialised(MPI_THREAD_SINGLE);
    leave();
}

FORTRAN(mpi_init_thread, MPI_INIT_THREAD, (MPI_Fint * required, MPI_Fint *provided, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    bool own = enter();
    pmpi_init_thread_(required, provided, error);
    if (own && *error == MPI_SUCCESS)
        initialised(*provided < *required ? *provided : *required);
    leave();
}

FORTRAN(mpi_finalize, MPI_FINALIZE, (MPI_Fint * error))
{
    ERROR_IS_OPTIONAL(error);
    if (enter())
        end();
    if (world != MPI_GROUP_NULL)
        PMPI_Group_free(&world);
    pmpi_finalize_(error);
    leave();
}

FORTRAN(mpi_abort, MPI_ABORT, (MPI_Fint * comm, MPI_Fint *code, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    flush_records();
    pmpi_abort_(comm, code, error);
}
