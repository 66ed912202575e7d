/* What mpi.h of the standard ABI does not declare [MPI 5.0, chapter 20].
 *
 * Problem: it leaves Fortran to libraries beside the MPI, so it has neither Fortran's integer nor conversions of
 * handles, which this library uses. Idea: the same conversions are there under other names, as those to a C int, which
 * Fortran's integer is in all compilers here. Why this way: the library is the same for all MPIs. Programs in Fortran
 * need such a library, of which none is known yet. */
#ifndef RAMPART_STANDARD_ABI_H
#define RAMPART_STANDARD_ABI_H

#ifdef MPI_ABI_VERSION

#include <string.h>

typedef int MPI_Fint;

#define PMPI_Comm_f2c PMPI_Comm_fromint
#define PMPI_Comm_c2f PMPI_Comm_toint
#define PMPI_Errhandler_f2c PMPI_Errhandler_fromint
#define PMPI_Errhandler_c2f PMPI_Errhandler_toint
#define PMPI_File_f2c PMPI_File_fromint
#define PMPI_File_c2f PMPI_File_toint
#define PMPI_Group_f2c PMPI_Group_fromint
#define PMPI_Group_c2f PMPI_Group_toint
#define PMPI_Info_f2c PMPI_Info_fromint
#define PMPI_Info_c2f PMPI_Info_toint
#define PMPI_Message_f2c PMPI_Message_fromint
#define PMPI_Message_c2f PMPI_Message_toint
#define PMPI_Op_f2c PMPI_Op_fromint
#define PMPI_Op_c2f PMPI_Op_toint
#define PMPI_Request_f2c PMPI_Request_fromint
#define PMPI_Request_c2f PMPI_Request_toint
#define MPI_Request_f2c MPI_Request_fromint
#define MPI_Request_c2f MPI_Request_toint
#define PMPI_Type_f2c PMPI_Type_fromint
#define PMPI_Type_c2f PMPI_Type_toint
#define PMPI_Win_f2c PMPI_Win_fromint
#define PMPI_Win_c2f PMPI_Win_toint

#define MPI_F_STATUS_IGNORE ((MPI_Fint *)MPI_STATUS_IGNORE)
#define MPI_F_STATUSES_IGNORE ((MPI_Fint *)MPI_STATUSES_IGNORE)

/* Fortran's status has the same words. */
static inline int PMPI_Status_c2f(const MPI_Status *status, MPI_Fint *in_fortran)
{
    memcpy(in_fortran, status, sizeof *status);
    return MPI_SUCCESS;
}

static inline int PMPI_Status_f2c(const MPI_Fint *in_fortran, MPI_Status *status)
{
    memcpy(status, in_fortran, sizeof *status);
    return MPI_SUCCESS;
}

#endif

#endif
