/* Compares the hash of messages with that of xxHash's portable code, for each kind of instructions that this CPU has.
 * Prints how many it compared. */
#include <stdio.h>
#include <stdlib.h>

#include "hash.h"

#define XXH_VECTOR 0 /* none */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define MOST_BYTES 5000

typedef void hash(const void *data, size_t bytes, uint64_t *low, uint64_t *high);

static void compare(hash *own, const char *name, const unsigned char *data, size_t bytes)
{
    uint64_t low, high;
    own(data, bytes, &low, &high);
    XXH128_hash_t right = XXH3_128bits(data, bytes);
    if (low == right.low64 && high == right.high64)
        return;
    printf("%s is wrong for %zu bytes\n", name, bytes);
    exit(1);
}

int main(void)
{
    static unsigned char data[2 * MOST_BYTES];
    int kinds = 1;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t bytes = 0; bytes <= MOST_BYTES; bytes++) {
        const unsigned char *begin = data + bytes % 67; /* aligned and not */
        compare(hash_bytes, "hash_bytes", begin, bytes);
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx2"))
            compare(hash_bytes_avx2, "hash_bytes_avx2", begin, bytes), kinds |= 2;
        if (__builtin_cpu_supports("avx512f"))
            compare(hash_bytes_avx512, "hash_bytes_avx512", begin, bytes), kinds |= 4;
#endif
    }
    printf("%d kinds\n", __builtin_popcount((unsigned)kinds));
    return 0;
}
