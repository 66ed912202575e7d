/* The hash with the vectors of one kind of CPU, for a file that names them: by a pragma for the compiler, and as
 * XXH_VECTOR for xxHash. */
#ifndef RAMPART_HASH_WIDE_H
#define RAMPART_HASH_WIDE_H

#include <immintrin.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hash.h"

static inline void hash_wide(const void *data, size_t bytes, uint64_t *low, uint64_t *high)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    *low = hash.low64;
    *high = hash.high64;
    /* GCC leaves it out in a function whose target a pragma sets. Without it, each SSE instruction of the program waits
     * for the upper halves of registers: the NAS benchmark BT took twice as long. */
    _mm256_zeroupper();
}

#endif
