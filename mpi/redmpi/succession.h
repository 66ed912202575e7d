/* Decisions that were followed, for the case that the replica which decides is dropped.
 *
 * Problem: the next replica decides then, but others may have followed decisions that it has not heard yet, and have
 * acted on them. Idea: each replica keeps the decisions that it has followed. It sends them to the new one, which first
 * follows what any other has followed, and tells it to those who have not. What nobody has followed is void. Why this
 * way: a decision counts once a replica has carried it out, so one that an error made impossible is decided anew.
 *
 * Which message a receive from any source takes is followed when the message is there. These decisions have no place
 * among the others, but in each replica's log, those on which a decision depends come before it.
 *
 * Pure. */
#ifndef RAMPART_SUCCESSION_H
#define RAMPART_SUCCESSION_H

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

/* A decision that was followed, and the count with it: each test in vain counts, what a receive takes does not. */
struct followed {
    struct decision decision;
    uint64_t count;
};

/* Decisions that are kept. A replica may be that far behind. */
#define MOST_FOLLOWED 4096

struct succession {
    uint64_t count; /* of decisions that were followed */
    uint64_t first; /* how many there were before those that are kept */
    int begin, used;
    struct followed log[MOST_FOLLOWED];
};

/* What another replica has followed: its log, the oldest first. */
struct inheritance {
    struct followed *log;
    int used;
    uint64_t count, first; /* as in its succession */
};

/* A decision was followed; of those in vain, one. */
void succession_follow(struct succession *succession, const struct decision *decision);

/* All of it; `log` has room for as many as are kept. */
struct inheritance succession_copy(const struct succession *succession, struct followed *log);

/* One of those in the mask that has followed more than so many; -1 if there is none. */
int one_ahead(const struct inheritance others[], uint32_t mask, uint64_t count);

/* Reduces an entry of a log to what a replica lacks that has followed so many decisions: of tests in vain, some may be
 * left. False if it lacks nothing. */
bool trim_to_missing(struct followed *one, uint64_t known);

/* The next decision after so many, among those that a replica has followed; of tests in vain, one. False if there is
 * none. */
bool next_followed(const struct inheritance *from, uint64_t count, struct decision *decision);

/* What a receive of this number takes, if a replica has followed that. */
bool followed_receive(const struct inheritance *from, uint64_t number, struct decision *decision);

#endif
