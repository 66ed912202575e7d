/* Envelopes on their way to other teams: they must stay until they are sent. */
#ifndef RAMPART_ENVELOPES_H
#define RAMPART_ENVELOPES_H

#include "digest.h"

struct envelope_place {
    struct envelope envelope;
    MPI_Request sends[MOST_COMPARED];
};

/* A place that is not on its way any more. */
struct envelope_place *next_envelope(void);

/* Waits for all. */
void end_envelopes(void);

#endif
