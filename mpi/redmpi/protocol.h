/* What a sender tells other teams of its messages [Fiala15, 3.3.2].
 *
 * MsgPlusHash, as usual: a hash, to as many teams as a majority has beside the own one. Replicas whose hashes differ
 * vote, and fetch the right message. All-to-all: the message itself, to all teams, so that each replica of the receiver
 * has all r copies and decides alone. No replica waits for another then, but r * r messages travel instead of 2 * r.
 *
 * Collective operations are performed by each team, and their results are compared by hash in both protocols. */
#ifndef RAMPART_PROTOCOL_H
#define RAMPART_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether it is all-to-all. */
bool sends_copies(void);

/* From how many other teams a replica hears of each message. */
int teams_heard(void);

/* Messages of up to so many bytes travel whole to other teams. */
size_t most_whole(void);

/* A message of so many bytes goes to the team, and an envelope of that length to each team that is to hear of it. */
void count_sent(size_t bytes, size_t envelope);

/* What this process has sent so, of the program's messages. */
struct sent {
    uint64_t messages, bytes;
};
struct sent sent_so_far(void);

#endif
