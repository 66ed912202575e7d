/* How much this process has compared so far, for `rampart mpirun`.
 *
 * Problem: a job that is stopped, or of which a process dies, ends without a word of most processes. Idea: the numbers
 * lie in a file of the job's folder that is mapped, so they are there however the process ends. */
#ifndef RAMPART_PROGRESS_H
#define RAMPART_PROGRESS_H

#include <stdint.h>

/* Opens the file; without one, nothing is noted. */
void begin_progress(int rank, int replica);

void note_progress(uint64_t compared, uint64_t replaced);

#endif
