/* Decisions that a replica has followed, on their way to the one that decides next (succession.h). */
#ifndef RAMPART_HAND_OVER_H
#define RAMPART_HAND_OVER_H

#include <stdbool.h>

#include "agreement.h"
#include "succession.h"

/* Sends them to another replica; takes over the log. */
void hand_over(int to, const struct inheritance *followed);

/* What another one has sent so; false if it has not come. The caller may keep the log. */
bool inherit(int from, struct inheritance *followed);

/* What follows is for the thread of the connections: sends what is to be sent, and receives what has begun to come. */
void send_log(const int peers[]);
bool receive_log(int socket, int from, const struct notice *notice);

#endif
