/* Who is who: native and virtual ranks, replicas and teams.
 *
 * A job of r replicas and n virtual ranks has r * n native ranks (processes). Those with the same replica number are a
 * team: it runs the program as if it were alone. Rank v of team k is process k * n + v [Fiala15, figure 3.6]; figure
 * 3.5 there numbers them otherwise. A map can name others (see map.h).
 *
 * Each communicator of the program belongs to a team. Its shadow has the members of all teams, team by team; digests
 * travel on it, so that they never meet a message of the program. The shadow of an intercommunicator has both groups of
 * each team, first the one whose first member has the lower rank. */
#ifndef RAMPART_TEAMS_H
#define RAMPART_TEAMS_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

#include "map.h"

struct teams {
    int replicas; /* 0: this library does nothing */
    int ranks;    /* of a team */
    int replica, rank; /* this process */
    MPI_Comm team;   /* what the program takes for MPI_COMM_WORLD */
    MPI_Comm column; /* the replicas of this rank, by number */
    MPI_Comm parts;  /* the team, for messages in parts; null if the MPI has none */
    bool is_quiet;   /* between MPI_Init and MPI_Finalize it is not */
    pthread_t thread; /* the one that began with MPI */
};

extern struct teams teams;

/* Learns who is who; after MPI_Init. */
void begin_teams(void);
void end_teams(void);

/* Whether what is not supported ends the job: it does so before MPI_Init, too, if replicas are wanted. */
bool refuses(void);

/* A communicator as the MPI has it: the team's own for MPI_COMM_WORLD. */
static inline MPI_Comm real_comm(MPI_Comm comm)
{
    return comm == MPI_COMM_WORLD && teams.replicas ? teams.team : comm;
}

/* Tags of the messages between the replicas of a rank. */
enum { TAG_NONE, TAG_DECISION, TAG_OUTPUT, TAG_SHARED, TAG_TURN };

/* Instead of the place of a common communicator (commons.h): the shadow has its own; it is not known yet; it has a
 * copy of a common one. */
enum { COMMON_NONE = -1, COMMON_WISHED = -2, COMMON_COPIED = -3 };

/* What belongs to a communicator of the program. */
struct shadow {
    MPI_Comm comm;
    int common; /* the place of the communicator, or why it has none */
    MPI_Request being_made;
    int size;   /* members in a team, of both groups */
    int peers;  /* of the group to which messages go */
    int first_peer; /* its place in a team */
    int number; /* the same in all teams */
    int *ranks; /* of the members, among all of the team */
    int users;  /* requests that need it, and the communicator itself */
    struct ticket_table *tables; /* the counters of its windows */
};

/* The ranks in a communicator of a group's members; the caller frees them. */
int *ranks_in(MPI_Comm comm, MPI_Group group, int *size);

/* Makes the shadow of a new communicator. All of its members call this. */
void shadow_begin(MPI_Comm comm);

/* Begins to make a shadow like this one: the same members, for another communicator. */
struct shadow *shadow_duplicate(const struct shadow *shadow, MPI_Comm comm);

/* Whether it is made; or waits until it is. */
bool shadow_is_made(struct shadow *shadow);
void await_shadow(struct shadow *shadow);

/* Gives a communicator its shadow. */
void shadow_attach(MPI_Comm comm, struct shadow *shadow);

/* The shadow of a communicator; null if it has none. */
struct shadow *shadow_of(MPI_Comm comm);

/* The same for a message: its communicator has one, unless we do not know how it was made. */
struct shadow *needed_shadow(MPI_Comm comm);

/* A request uses a shadow, and no longer; null is none. */
struct shadow *shadow_hold(struct shadow *shadow);
void shadow_release(struct shadow *shadow);

/* The program frees a communicator: another may get its handle. */
void shadow_forget(void);

/* The team so many before the own one, or after it, on the ring [Fiala15, figure 3.4]. */
static inline int team_before(int places)
{
    return (teams.replica - places + teams.replicas) % teams.replicas;
}

static inline int team_after(int places)
{
    return (teams.replica + places) % teams.replicas;
}

/* The rank in a shadow of a peer in another team. */
static inline int shadow_rank(const struct shadow *shadow, int peer, int replica)
{
    const int place = shadow->first_peer + peer;
    return shadow->common == COMMON_NONE ? replica * shadow->size + place
                                         : native_of(shadow->ranks[place], replica, teams.ranks);
}

#endif
