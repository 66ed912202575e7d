/* Which native rank is which replica of which rank [Fiala15, 3.3.1].
 *
 * The map is a file of the job's folder, `map`: line i, from 0, has the rank and the replica of native rank i. Without
 * that file, the formulas of [Fiala15, figure 3.6] hold. It is known before the program begins, which may print and
 * write files before it begins with MPI. */
#ifndef RAMPART_MAP_H
#define RAMPART_MAP_H

struct seat {
    int rank, replica;
};

/* Reads the map of a job. */
void begin_map(const char *folder, int ranks, int replicas);

struct seat seat_of(int native, int ranks);
int native_of(int rank, int replica, int ranks);

#endif
