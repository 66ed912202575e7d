/* Takes so many MiB of memory, fills it and reads it, and ends with 4 if a word is not as it was written: then somebody
 * has given back a bad frame. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **arguments) {
    size_t words = count == 2 ? strtoull(arguments[1], NULL, 10) << 17 : 0, wrong = 0;
    volatile uint64_t *memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 3;
    const uint64_t patterns[] = {0, UINT64_MAX};
    for (unsigned pattern = 0; pattern < 2; pattern++) {
        for (size_t at = 0; at < words; at++) memory[at] = patterns[pattern];
        for (size_t at = 0; at < words; at++) wrong += memory[at] != patterns[pattern];
    }
    printf("%zu of %zu words wrong\n", wrong, words);
    return wrong ? 4 : 0;
}
