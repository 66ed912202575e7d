/* What one replica decides for all.
 *
 * Problem: what a program learns from the time and from tests differs between replicas, which then part [Fiala15,
 * 3.3.3]. Idea: the lowest replica of a rank finds it out, and tells the others, who say the same to their program.
 * Why this way: all others only wait for it; what it tells has an order, that of its program, which is theirs as well.
 *
 * The first unsuccessful tests are reported at once, later ones by their number: a program that does nothing
 * else needs nothing else, and one that works between two tests must not wait.
 *
 * If that replica is dropped, the next one decides (succession.h). */
#ifndef RAMPART_DECISIONS_H
#define RAMPART_DECISIONS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "succession.h"

/* What the program asks for. */
struct choice {
    enum decision_kind kind;
    bool waits; /* until something is found */
    bool (*look)(void *what, struct decision *decision); /* of the one who decides: whether it is found */
    /* Of the others: whether what was decided can be carried out here by now. Null: always. */
    bool (*is_ready)(void *what, const struct decision *decision);
    void *what;
};

void begin_decisions(void);
void end_decisions(void);

/* Decides, or follows: whether it was found. */
bool decide(const struct choice *choice, struct decision *decision);

/* Whether this replica is the one who decides, and posts receives as the program says. It may have to follow first what
 * others have followed already. */
bool leads(void);

/* Tells the others which message a receive takes; of the one who leads. */
void tell_resolved(uint64_t receive, int source, int tag);

/* The message of such a receive is here: that cannot be decided anew. */
void keep_resolved(uint64_t receive, int source, int tag);

/* What others have received by it, of the one who leads; false: nothing. */
bool was_resolved(uint64_t receive, int *source, int *tag);

/* Sends what was not told yet: before it waits for anything. */
void flush_decisions(void);

/* Takes what was decided about receives, if it is there, and does not wait. Of the others. */
void look_for_decisions(void);

/* Another replica may have to decide from now on. Whatever waits calls this. */
void look_for_succession(void);

#endif
