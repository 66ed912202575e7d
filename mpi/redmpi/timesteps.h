/* The steps of the program, and in which one it is [Fiala15, 3.7.1].
 *
 * Problem: how far an error has spread is to be seen step by step, and MPI knows nothing of the steps of a simulation.
 * Idea: each call of MPI_Pcontrol begins one, since MPI leaves its meaning to libraries like this one; or each call of
 * a function that the user names. Why this way: a program needs nothing of ours to report its steps, and none need be
 * changed if it calls some function once in each step. A function is counted by a library of its own, which is
 * generated for it and preloaded before this one: without it, nothing is counted but MPI_Pcontrol. */
#ifndef RAMPART_TIMESTEPS_H
#define RAMPART_TIMESTEPS_H

#include <stdint.h>

/* Reads from RAMPART_STEP whether a function is counted instead of MPI_Pcontrol. */
void begin_timesteps(void);

/* The step in which the program is; 0 before the first one. */
uint64_t timestep(void);

/* The function that the user named was called from there. Calls of this library, and of the MPI, do not count. */
void rampart_timestep(const void *caller);

#endif
