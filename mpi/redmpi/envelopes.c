/* See envelopes.h. */
#include "envelopes.h"

#include <stdlib.h>

#include "events.h"
#include "heap.h"
#include "requests.h"

/* Envelopes of usual size on their way at a time. A sender that is so far ahead of another team waits for it. */
#define PLACES 256

static struct envelope_place places[PLACES];
static unsigned next;

/* Others on their way, the first one first. */
static struct envelope_place *first, **end = &first;

static void complete_all(struct envelope_place *place)
{
    for (int i = 0; i < place->count; i++)
        complete(&place->sends[i], MPI_STATUS_IGNORE);
}

struct envelope_place *next_envelope(int teams_told)
{
    static struct envelope envelopes[PLACES];
    struct envelope_place *place = &places[next % PLACES];
    if (next >= PLACES)
        complete_all(place);
    place->envelope = &envelopes[next % PLACES];
    place->count = teams_told;
    next++;
    return place;
}

static void free_first(void)
{
    struct envelope_place *place = first;
    first = place->next;
    if (!first)
        end = &first;
    free(place->envelope);
    free(place);
}

static void free_what_was_sent(void)
{
    int is_sent = 1;
    while (first && is_sent) {
        PMPI_Testall(first->count, first->sends, &is_sent, MPI_STATUSES_IGNORE);
        if (is_sent)
            free_first();
    }
}

struct envelope_place *new_envelope(size_t room, int teams_told)
{
    free_what_was_sent();
    struct envelope_place *place = malloc(sizeof *place);
    struct envelope *envelope = __libc_malloc(room);
    if (!place || !envelope)
        stop_job("no memory for the copy of a message of %zu bytes", room);
    *place = (struct envelope_place){ .envelope = envelope, .count = teams_told };
    *end = place;
    end = &place->next;
    return place;
}

void end_envelopes(void)
{
    for (unsigned i = 0; i < PLACES && i < next; i++)
        complete_all(&places[i]);
    while (first) {
        complete_all(first);
        free_first();
    }
}
