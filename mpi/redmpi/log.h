/* What this process has received, for replicas that are compared behind the program (`--mode later`).
 *
 * Problem: a program that waits for a digest of each message waits for the slowest replica. Idea: the program gets
 * what it received at once. Its digest goes to a log, which a thread brings to the lowest replica a few times a second
 * (comparison.h). Why this way: no message of ours is on the program's path, but the decisions of replica 0. The price
 * is that nothing can be mended: the program has a wrong message already.
 *
 * The log has so many places, and an entry stays until it was compared. So a replica that is that far ahead waits for
 * the slowest one. That cannot go round in a circle: each wait is for an earlier point of the same program.
 *
 * One thread writes, the program's; the one of connections.c reads. Neither holds a lock. */
#ifndef RAMPART_LOG_H
#define RAMPART_LOG_H

#include <time.h>

#include "compare.h"
#include "comparison.h"

/* Entries of the log. */
#define LOG_PLACES 65536

/* The user wants to know of errors later. */
bool compares_later(void);

/* From how many teams a digest comes beside each message. */
int teams_beside(void);

/* Before the teams. */
void begin_log(void);

/* The next thing that the program receives; waits where the log is full. */
void log_received(const struct digest *digest, const struct origin *origin);

/* So many things were logged. */
uint64_t logged(void);

/* Waits until all of them are compared, which all replicas have logged. */
void finish_log(void);

/* So many nanoseconds of CPU time were used, by what the clock counts. */
uint64_t cpu_time(clockid_t clock);

/* This process is about to end the job: leaves all others the time to compare what they have received. */
void let_others_compare(void);

/* What follows is for the thread that compares. */

/* Copies the next marks, which are given out once; returns how many. */
uint64_t next_marks(struct mark *marks, uint64_t most);

/* All numbers up to this one are compared. */
void free_entries(uint64_t compared);

/* Of the lowest replica: an entry was not the same in all replicas. */
void report_entry(uint64_t number, uint32_t wrong);

#endif
