/* Two large allocations that are swept until memory fails: whoever wants to know where they were made asks for
 * `here` and `there`. */
#include <stdint.h>
#include <stdlib.h>

enum { WORDS = 4 << 20 };

__attribute__((noinline)) static uint64_t *here(void) {
    uint64_t *words = malloc(WORDS * sizeof *words);
    words[0] = 1; /* or the call is a jump */
    return words;
}

__attribute__((noinline)) static uint64_t *there(void) {
    uint64_t *words = calloc(WORDS, sizeof *words);
    words[0] = 1; /* or the call is a jump */
    return words;
}

int main(void) {
    uint64_t *parts[] = { here(), there() };
    uint64_t sum = 0;
    for (unsigned round = 0; round < 2000; round++)
        for (unsigned part = 0; part < 2; part++)
            for (size_t word = 0; word < WORDS; word += 512)
                sum += parts[part][word] += round;
    return sum == 0;
}
