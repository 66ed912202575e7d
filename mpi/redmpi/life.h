/* The beginning and the end of a process. */
#ifndef RAMPART_LIFE_H
#define RAMPART_LIFE_H

/* Right after the MPI has begun, and before it ends. A second call does nothing. */
void begin_replica(void);
void end_replica(void);

#endif
