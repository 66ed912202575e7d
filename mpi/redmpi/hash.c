/* See hash.h. */
#pragma GCC optimize("O3")
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void hash_bytes(const void *data, size_t bytes, uint64_t *low, uint64_t *high)
{
#ifdef __x86_64__
    /* Before Ice Lake, the first with VBMI2, Intel's CPUs run slower for a while after 512-bit instructions [Downs, Ice
     * Lake AVX-512 Downclocking, 2020]: the program would, too. */
    if (__builtin_cpu_supports("avx512vbmi2")) {
        hash_bytes_avx512(data, bytes, low, high);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        hash_bytes_avx2(data, bytes, low, high);
        return;
    }
#endif
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    *low = hash.low64;
    *high = hash.high64;
}
