/* Replicas that die, where the MPI lets the others go on without them.
 *
 * Problem: a process that crashes takes the whole job with it, though other replicas of its rank are left. Idea: Open
 * MPI 5 can go on (ULFM, `mpirun --with-ft ulfm`): what was to come from a dead process, or to go to it, ends with an
 * error. The team of that process is dropped then (drops.h). Why this way: to drop a team is what is done with one that
 * is alive and wrong, too, so death needs no protocol of its own.
 *
 * Who notices first says so: another replica of its rank, by their connection or by an error of the MPI; or one of its
 * team, whose communicators have an error handler. Operations between teams return their errors. */
#ifndef RAMPART_DEATHS_H
#define RAMPART_DEATHS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether the job goes on without a process. In any thread. */
bool outlives_deaths(void);

/* When it is known whether teams may be dropped. */
void begin_deaths(void);

/* A process of this team is dead, or the replica of this rank in another one: that team will be dropped. In any
 * thread. */
void see_death(int team);

/* A mask of the teams of which a process was dead at the last look already, each once; one look a second. When a job
 * ends, or is ended, its processes end one after the other: what is missed then is no death that the job outlives. */
uint32_t teams_with_dead(void);

/* Whether an operation failed because a process is dead. */
bool is_death(int error);

/* The MPI says to the program that a process of its own team is dead. Does not return if the team is dropped. Else,
 * true if the job is over: at the end of one with a dead process, processes exit without finalizing the MPI, and it
 * takes that for deaths. */
bool is_death_of_ended_job(void);

/* A process of another team is dead, says the MPI. Returns when the team is dropped, or the job is over. */
void leave_dead(int team);

/* Whether a request with a replica of another team has ended. It has not if that is dead: its team is dropped then. */
bool has_ended(MPI_Request *request, int team, MPI_Status *status);

/* A receive from a team that was dropped: what the MPI may still write to must stay. */
void give_up(MPI_Request *request);

#endif
