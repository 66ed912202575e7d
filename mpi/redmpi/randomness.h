/* Random numbers of the operating system: the same in all replicas of a rank.
 *
 * Problem: programs seed their generators from the kernel, and then no replica does what the others do. Idea: each
 * replica draws from a generator of its own, whose key is a secret of the job, and whose stream is that of the rank.
 * Why this way: it needs no messages, works before MPI_Init too, where global variables of C++ are seeded, and an error
 * in it hits one replica alone, which the others notice.
 *
 * The generator is ChaCha20 [RFC 8439, 2.3], so that keys that a program makes of it stay secret. Threads other than
 * the first draw from the kernel: their order differs between replicas. */
#ifndef RAMPART_RANDOMNESS_H
#define RAMPART_RANDOMNESS_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads the job's seed from its folder. */
void begin_random(const char *folder, int rank);

/* A number that is the same in all processes of the job. */
uint32_t drawn_for_job(void);

/* What a call of getrandom returns to its caller. */
ssize_t getrandom_for(void *buffer, size_t length, unsigned flags, const void *caller);

/* The path of a file with the random bytes that the program is to find in a device; the same path if it is none. `room`
 * is for PATH_MAX bytes. */
const char *path_of_device(const char *path, const void *caller, char *room);

#endif
