/* See hash.h. */
#pragma GCC optimize("O3")
#ifdef __x86_64__
#pragma GCC target("avx2")
#define XXH_VECTOR 2 /* AVX2 */
#include <immintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hash.h"

void hash_bytes_avx2(const void *data, size_t bytes, uint64_t *low, uint64_t *high)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    *low = hash.low64;
    *high = hash.high64;
#ifdef __x86_64__
    /* GCC leaves it out in a function whose target a pragma sets. Without it, each SSE instruction of the program waits
     * for the upper halves of registers: the NAS benchmark BT took twice as long. */
    _mm256_zeroupper();
#endif
}
