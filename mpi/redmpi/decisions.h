/* What one replica decides for all.
 *
 * Problem: what a program learns from the time and from tests differs between replicas, which then part [Fiala15,
 * 3.3.3]. Idea: the lowest replica of a rank finds it out, and tells the others, who say the same to their program.
 * Why this way: all others only wait for it; what it tells has an order, that of its program, which is theirs as well.
 *
 * The first unsuccessful tests are reported at once, later ones by their number: a program that does nothing
 * else needs nothing else, and one that works between two tests must not wait. */
#ifndef RAMPART_DECISIONS_H
#define RAMPART_DECISIONS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum decision_kind {
    DECISION_NOTHING,  /* so many tests found nothing */
    DECISION_RESOLVED, /* a receive that could take several messages has one: its number, the source, the tag */
    DECISION_FOUND,    /* a test or a probe: what is in the numbers depends on it */
    DECISION_MORE,     /* the rest of one that has more numbers */
    DECISION_TIME,     /* seconds */
    DECISION_END,      /* the last one */
};

#define DECISION_NUMBERS 6

struct decision {
    int32_t kind;
    int32_t numbers[DECISION_NUMBERS];
    uint64_t receive;
    double seconds;
};

void begin_decisions(void);
void end_decisions(void);

/* Whether this replica decides. */
bool decides(void);

/* Tells the others; of the one who decides. */
void tell_decision(const struct decision *decision);

/* A test found nothing. Of the one who decides. */
void tell_nothing(void);

/* Sends what was not told yet: before it waits for anything. */
void flush_decisions(void);

/* Waits for the next decision, which must be of the kind that it says; false if it is that nothing was found. Of the
 * others. */
bool hear_decision(struct decision *decision);

/* The same where nothing cannot be: ends the job then, since the replica has left the path. */
void must_hear(struct decision *decision);

/* The one who decides tells one number, or that nothing was found; the others hear it. Returns whether it was found. */
bool decide(bool is_found, int *number);

/* Takes what was decided about receives, if it is there, and does not wait. Of the others. */
void look_for_decisions(void);

#endif
