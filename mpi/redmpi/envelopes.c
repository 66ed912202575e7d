/* See envelopes.h. */
#include "envelopes.h"

#include <stdlib.h>

#include "drops.h"
#include "events.h"
#include "heap.h"
#include "requests.h"
#include "teams.h"

/* Envelopes of usual size on their way at a time. A sender that is so far ahead of another team waits for it. */
#define PLACES 256

static struct envelope_place places[PLACES];
static unsigned next;

/* Others on their way, the first one first. */
static struct envelope_place *first, **end = &first;

/* Nobody waits for a team that is dropped. What it may still take stays where it is, or becomes another envelope. */
static bool is_sent(MPI_Request *send, int team)
{
    int is_done = *send == MPI_REQUEST_NULL;
    if (!is_done && is_out(team))
        PMPI_Request_free(send);
    else if (!is_done)
        PMPI_Test(send, &is_done, MPI_STATUS_IGNORE);
    return is_done || *send == MPI_REQUEST_NULL;
}

static void complete_all(struct envelope_place *place)
{
    for (int i = 0; i < place->count; i++) {
        for (unsigned looks = 0; !is_sent(&place->sends[i], team_after(i + 1)); looks++)
            wait_on(looks);
    }
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
    if (!teams_out())
        free(place->envelope);
    free(place);
}

static void free_what_was_sent(void)
{
    bool are_sent = true;
    while (first && are_sent) {
        for (int i = 0; i < first->count; i++)
            are_sent &= is_sent(&first->sends[i], team_after(i + 1));
        if (are_sent)
            free_first();
    }
}

struct envelope_place *new_envelope(size_t room, int teams_told)
{
    free_what_was_sent();
    struct envelope_place *place = malloc(sizeof *place);
    struct envelope *envelope = malloc_as_it_is(room);
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
