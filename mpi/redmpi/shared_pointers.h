/* The file pointer that all processes share which have opened a file.
 *
 * Problem: who moves it first depends on time, so ranks would read and write elsewhere in each team. Idea: the pointer
 * is a counter of ours, which only the first team moves; each rank's replica 0 tells the others the place that it got,
 * and all read or write there, in the files of their teams. Why this way: the MPI does not say where it has read, so
 * its own pointer cannot be followed. The counter is a file in the job's folder, under a lock, as ROMIO's own pointer
 * is: it costs nothing where it is not used, and nobody need answer for it. */
#ifndef RAMPART_SHARED_POINTERS_H
#define RAMPART_SHARED_POINTERS_H

#include <mpi.h>
#include <stdbool.h>

/* The mode in which the MPI is to open a file: one that is used by shared pointers only would be closed to ours. */
int mode_without_order(int amode);

/* A file was opened by all of a communicator, in this mode. */
void begin_shared_pointer(MPI_File file, MPI_Comm comm, int amode);

/* The view of a file is about to change, in all processes: the pointer goes to its begin. Returns where the view
 * begins, which may be the place of the pointer. */
MPI_Offset begin_view(MPI_File file, MPI_Offset displacement);

#endif
