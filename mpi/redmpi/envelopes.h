/* Envelopes on their way to other teams: they must stay until they are sent. */
#ifndef RAMPART_ENVELOPES_H
#define RAMPART_ENVELOPES_H

#include "digest.h"

struct envelope_place {
    struct envelope *envelope;
    int count; /* of sends */
    MPI_Request sends[MOST_COMPARED];
    struct envelope_place *next;
};

/* A place for an envelope of usual size that goes to so many teams. Waits for the one that was there, if need be. */
struct envelope_place *next_envelope(int teams_told);

/* The same for one of any size. Never waits: a receiver may take such a message only when it has others that this
 * process sends later. */
struct envelope_place *new_envelope(size_t room, int teams_told);

/* Waits for all. */
void end_envelopes(void);

#endif
