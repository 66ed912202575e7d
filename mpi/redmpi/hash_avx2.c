/* See hash.h. */
#ifdef __x86_64__
#pragma GCC optimize("O3")
#pragma GCC target("avx2")
#define XXH_VECTOR 2 /* AVX2 */
#include "hash_wide.h"

void hash_bytes_avx2(const void *data, size_t bytes, uint64_t *low, uint64_t *high)
{
    hash_wide(data, bytes, low, high);
}
#endif
