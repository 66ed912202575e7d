/* MPI I/O: each team performs it on files of its own (see files.h), so all else is left to the MPI.
 *
 * What a team writes so is compared with all other files, when the job ends. Where ranks share a file pointer, see
 * shared_pointers.h. */
#include <fcntl.h>
#include <mpi.h>
#include <string.h>

#include "communicators.h"
#include "files.h"
#include "fortran.h"
#include "shared_pointers.h"
#include "teams.h"

/* A path without what tells ROMIO the kind of file system, such as "ufs:". */
static const char *without_prefix(const char *name)
{
    size_t length = strcspn(name, ":/");
    return length > 1 && name[length] == ':' ? name + length + 1 : name;
}

static int flags_of(int amode)
{
    int flags = amode & MPI_MODE_RDONLY ? O_RDONLY : amode & MPI_MODE_RDWR ? O_RDWR : O_WRONLY;
    return flags | (amode & MPI_MODE_CREATE ? O_CREAT : 0) | (amode & MPI_MODE_EXCL ? O_EXCL : 0);
}

int MPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info, MPI_File *fh)
{
    struct place place;
    if (teams.is_quiet)
        return PMPI_File_open(comm, filename, amode, info, fh);
    comm = real_comm(comm);
    meet(comm);
    const char *name = without_prefix(filename);
    int flags = flags_of(amode);
    bool only_reads = flags == O_RDONLY && !(amode & MPI_MODE_DELETE_ON_CLOSE);
    const char *path = only_reads ? path_to_read(AT_FDCWD, name, FOLLOW, NULL, &place)
                                  : path_to_write(AT_FDCWD, name, FOLLOW, flags, NULL, &place);
    int result = PMPI_File_open(comm, path == name ? filename : path, mode_without_order(amode), info, fh);
    if (result == MPI_SUCCESS && amode & MPI_MODE_DELETE_ON_CLOSE && path == place.upper)
        whiten(&place);
    if (result == MPI_SUCCESS)
        begin_shared_pointer(*fh, comm, amode);
    return result;
}

int MPI_File_set_view(MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep,
                      MPI_Info info)
{
    disp = begin_view(fh, disp);
    return PMPI_File_set_view(fh, disp, etype, filetype, datarep, info);
}

int MPI_File_delete(const char *filename, MPI_Info info)
{
    struct place place;
    if (teams.is_quiet || !find_place(AT_FDCWD, without_prefix(filename), DO_NOT_FOLLOW, &place))
        return PMPI_File_delete(filename, info);
    bool is_outside_only = !is_in_upper(&place) && is_outside(&place, NULL);
    return whiten(&place) && is_outside_only ? MPI_SUCCESS : PMPI_File_delete(place.upper, info);
}

/* A string of Fortran ends with blanks. */
static char *from_fortran(const char *text, size_t length, char room[PATH_MAX])
{
    while (length && text[length - 1] == ' ')
        length--;
    if (length > PATH_MAX - 1)
        length = PATH_MAX - 1;
    memcpy(room, text, length);
    room[length] = 0;
    return room;
}

FORTRAN(mpi_file_open, MPI_FILE_OPEN,
        (MPI_Fint * comm, const char *filename, MPI_Fint *amode, MPI_Fint *info, MPI_Fint *fh, MPI_Fint *error,
         size_t length))
{
    ERROR_IS_OPTIONAL(error);
    char name[PATH_MAX];
    MPI_File file = PMPI_File_f2c(*fh);
    *error = MPI_File_open(PMPI_Comm_f2c(*comm), from_fortran(filename, length, name), *amode, PMPI_Info_f2c(*info),
                           &file);
    if (*error == MPI_SUCCESS)
        *fh = PMPI_File_c2f(file);
}

FORTRAN(mpi_file_delete, MPI_FILE_DELETE, (const char *filename, MPI_Fint *info, MPI_Fint *error, size_t length))
{
    ERROR_IS_OPTIONAL(error);
    char name[PATH_MAX];
    *error = MPI_File_delete(from_fortran(filename, length, name), PMPI_Info_f2c(*info));
}

FORTRAN(mpi_file_set_view, MPI_FILE_SET_VIEW,
        (MPI_Fint * fh, MPI_Offset *disp, MPI_Fint *etype, MPI_Fint *filetype, const char *datarep, MPI_Fint *info,
         MPI_Fint *error, size_t length))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Offset begin = begin_view(PMPI_File_f2c(*fh), *disp);
    pmpi_file_set_view_(fh, &begin, etype, filetype, datarep, info, error, length);
}
