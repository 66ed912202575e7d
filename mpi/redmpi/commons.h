/* Communicators of all processes, made in advance and lent to shadows (teams.h): once a team is dropped, none can be
 * made that includes it.
 *
 * A shadow takes one that no member uses for another shadow. Some are only for MPI_Comm_idup: the program may make
 * other communicators before it is known which one that gets. */
#ifndef RAMPART_COMMONS_H
#define RAMPART_COMMONS_H

#include <mpi.h>
#include <stdbool.h>

/* More than most programs have communicators at a time, in a process; and of these, by MPI_Comm_idup. */
#define COMMONS 16
#define COMMONS_OF_IDUP 4

/* All processes call these; the second one only where no team was dropped. */
void begin_commons(void);
void end_commons(void);

MPI_Comm common_at(int place);

/* The place of one that is free; -1 if there is none. All members call this. */
int take_common(MPI_Comm comm);
void return_common(int place);

/* The same for MPI_Comm_idup: begins to take one, as soon as an earlier wish is fulfilled. */
void wish_common(MPI_Comm comm);

/* Whether the last wish is fulfilled: then the place, or -1, is known. */
bool get_wish(int *place);

#endif
