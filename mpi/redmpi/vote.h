/* Which of several copies of a message is right: the one that most have. Byte for byte, and alone: see protocol.h. */
#ifndef RAMPART_VOTE_H
#define RAMPART_VOTE_H

#include <stdbool.h>
#include <stddef.h>

/* What came as one replica's message. */
struct copy {
    const void *data; /* null: longer than the program has room for, however long it is */
    size_t bytes;
    bool is_known; /* else it is like no other */
};

bool same_copy(const struct copy *one, const struct copy *other);

/* The first copy that is the same as more than half of all; -1 if there is none. */
int majority_of(const struct copy copies[], int count);

#endif
