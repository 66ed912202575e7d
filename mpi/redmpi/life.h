/* The beginning and the end of a process. */
#ifndef RAMPART_LIFE_H
#define RAMPART_LIFE_H

/* Right after the MPI has begun, and before it ends. A second call does nothing. */
void begin_replica(void);
void end_replica(void);

/* Ends the MPI. If teams were dropped, what it says of their messages, which nobody took, is none of the program's
 * output. */
int finalize_mpi(void);

#endif
