/* See early.h. */
#include "early.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"

struct early {
    int shadow, rank, tag;
    size_t bytes;
    struct early *next;
    char digest[];
};

/* The oldest of each origin first. */
static struct early *first;

void keep_early_digest(struct origin_of_digest origin, const void *digest, size_t bytes)
{
    struct early *early = malloc(sizeof *early + bytes);
    if (!early)
        stop_job("no memory for what other teams say of a message");
    *early = (struct early){ origin.shadow->number, origin.rank, origin.tag, bytes, first };
    memcpy(early->digest, digest, bytes);
    first = early;
}

static bool is_of(const struct early *early, struct origin_of_digest origin)
{
    return early->shadow == origin.shadow->number && early->rank == origin.rank && early->tag == origin.tag;
}

int take_early_digest(struct origin_of_digest origin, void *digest, size_t room)
{
    for (struct early **place = &first; *place; place = &(*place)->next) {
        struct early *early = *place;
        if (!is_of(early, origin))
            continue;
        size_t bytes = early->bytes < room ? early->bytes : room;
        memcpy(digest, early->digest, bytes);
        *place = early->next;
        free(early);
        return (int)bytes;
    }
    return 0;
}
