/* Who this process is, as the program sees it: the same in all replicas of a rank.
 *
 * Problem: programs print process ids and names of nodes, send them, and make names of files of them; all differ
 * between replicas. Idea: the program gets a number that the kernel never gives out, made of the job's seed and the
 * rank, and the name of the first replica's node. Functions that take a process id know the number, and mean this
 * process by it. Why this way: the first replica's own number would be known only after MPI_Init, and elsewhere it may
 * be that of another process, such as a child of the program, which a signal would hit then.
 *
 * Only the program gets these answers. The MPI, and children of the program, get the real ones. */
#ifndef RAMPART_IDENTITY_H
#define RAMPART_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on; after begin_random(). */
void begin_identity(int rank);

/* All replicas get the name of the first one's node; after begin_teams(). */
void share_node(void);

/* That name; empty before. */
const char *shared_node(void);

/* Whether this is the thread whose calls have the same order in all replicas; in no child of the process. */
bool is_in_order(void);

/* The process's id for the kernel. */
pid_t real_pid(void);

/* The path of a file that the kernel has of the process that is meant; the same path if it is none. `room` is for
 * PATH_MAX bytes. */
const char *path_of_process(const char *path, char *room);

#endif
