/* See hash.h. */
#pragma GCC optimize("O3")
#ifdef __x86_64__
#pragma GCC target("avx512f")
#define XXH_VECTOR 3 /* AVX-512 */
#include <immintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hash.h"

void hash_bytes_avx512(const void *data, size_t bytes, uint64_t *low, uint64_t *high)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    *low = hash.low64;
    *high = hash.high64;
#ifdef __x86_64__
    _mm256_zeroupper(); /* see hash_avx2.c */
#endif
}
