/* The hash of messages: XXH3 with 128 bits, by its library (xxHash), which is as fast as memory [xxHash]. It finds any
 * accident; it does not keep an adversary out, who could as well change both messages.
 *
 * The library is compiled here, for the instructions of each kind of CPU, since a job may run on several. GCC makes
 * half as fast code of it with -O2 as with -O3. */
#ifndef RAMPART_HASH_H
#define RAMPART_HASH_H

#include <stddef.h>
#include <stdint.h>

void hash_bytes(const void *data, size_t bytes, uint64_t *low, uint64_t *high);

/* The same with AVX2, on CPUs that have it. */
void hash_bytes_avx2(const void *data, size_t bytes, uint64_t *low, uint64_t *high);

/* The same with AVX-512. */
void hash_bytes_avx512(const void *data, size_t bytes, uint64_t *low, uint64_t *high);

#endif
