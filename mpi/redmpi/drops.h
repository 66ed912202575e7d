/* Teams that are dropped: the job goes on without them.
 *
 * Problem: a replica that does other things than the others makes its whole team wait, or send what nobody expects, and
 * all teams compare with each other. Idea: with three replicas or more, that team is left out: nobody waits for it or
 * takes its word any more. Its processes sleep until the job ends, since the MPI needs them then. Why this way: the
 * MPI never learns of it, so that it works with any MPI.
 *
 * Which team it is is found in one rank (paths.h). The news goes from process to process: among the replicas of a rank,
 * and to the same replica of the next rank and the one before, so that no team is needed for it. News of several teams
 * may come in any order: all that counts is which teams are out. */
#ifndef RAMPART_DROPS_H
#define RAMPART_DROPS_H

#include <stdbool.h>
#include <stdint.h>

#include "teams.h"

/* Whether a team may be dropped in this job: the user wants it, it has three replicas, and they correct errors. */
bool may_drop(void);

/* A mask of the teams that are out. In any thread. */
uint32_t teams_out(void);

static inline bool is_out(int team)
{
    return teams_out() >> team & 1;
}

int live_teams(void);

/* A mask of the other replicas of this rank whose teams are not out. In any thread. */
uint32_t others_left(void);

/* The lowest team that is left decides. */
int first_team(void);

/* These are out. Ends the job if fewer than two are left. Returns those that were not out before. */
uint32_t leave_teams_out(uint32_t out);

/* The job cannot go on without a team from now on, since the program does what is not supported then. */
void need_all_teams(const char *why);

/* Sleeps until the job ends if this team is out, and does not return then. The program's thread calls this wherever it
 * may wait. */
void stay_in(void);

/* All others have come to the end. In the thread of the connections. */
void end_sleep(void);

/* If the program's thread is not in this library or the MPI, it is interrupted to sleep. In the other thread. */
void stop_program(void);

/* When it is known how many teams there are. */
void begin_drops(void);

#endif
