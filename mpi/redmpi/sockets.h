/* The connections of a process (TCP), and who is at the other end. */
#ifndef RAMPART_SOCKETS_H
#define RAMPART_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "agreement.h"

/* To the rank before this one in the team, and to the one after it: a ring. */
enum { LINK_BEFORE, LINK_AFTER, LINKS };

/* Connects this process with the other replicas of its rank, and, if teams may be dropped, with two ranks of its team.
 * All call this. Where there is none, it is -1. */
void connect_all(int peers[MOST_REPLICAS], int links[LINKS]);

/* How long ago the other end was closed, in microseconds, if this process sees it late; 0 where nobody knows. */
long long late_by(int connection);

bool write_all(int to, const void *data, size_t bytes);
bool read_all(int from, void *data, size_t bytes);

#endif
