/* The clocks of a computer, which one replica reads for all [Fiala15, 3.3.3].
 *
 * The MPI also reads clocks, at any moment, and gets what its own replica reads. So do children of the process, and
 * other threads than the one that called MPI_Init: only that one makes its calls in the same order in all replicas. */
#ifndef RAMPART_CLOCKS_H
#define RAMPART_CLOCKS_H

#include <stddef.h>

/* Overwrites what this replica has just read by what the replica that decides has read; does nothing if this reading is
 * not shared. `reader` is an address in the code that asks. */
void share_time(void *bytes, size_t size, const void *reader);

#endif
