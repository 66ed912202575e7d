/* Fills memory and says so, waits to be told to go on, then round by round reads all of it again and writes the next
 * round's content. A word that is not what was written last ends it with 4: what a guarded program must never see.
 * The first word of page P in round R is RAM (in ASCII), SALT, P, R: whoever looks into the machine's RAM finds the page. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8 };

static uint64_t salt;

static uint64_t content(uint64_t page, uint64_t word, uint64_t round) {
    if (word == 0) return 0x52414d0000000000 | salt << 32 | page << 8 | round;
    uint64_t mixed = (page << 20 | word << 8 | round) * 0x9e3779b97f4a7c15;
    return mixed ^ mixed >> 29;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    uint64_t pages = strtoull(arguments[1], NULL, 10), rounds = strtoull(arguments[2], NULL, 10);
    salt = strtoull(arguments[3], NULL, 10);
    volatile uint64_t *memory = aligned_alloc(PAGE, pages * PAGE);
    if (!memory) return 3;
    for (uint64_t at = 0; at < pages * WORDS; at++) memory[at] = content(at / WORDS, at % WORDS, 0);
    printf("filled %d\n", (int)getpid());
    fflush(stdout);
    while (access("/tmp/go", F_OK)) usleep(100000);
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t at = 0; at < pages * WORDS; at++) {
            uint64_t expected = content(at / WORDS, at % WORDS, round), found = memory[at];
            if (found != expected) {
                printf("wrong in round %d, page %d, word %d: %016llx, not %016llx\n", (int)round, (int)(at / WORDS),
                       (int)(at % WORDS), (unsigned long long)found, (unsigned long long)expected);
                return 4;
            }
            memory[at] = content(at / WORDS, at % WORDS, round + 1);
        }
    }
    puts("right");
    return 0;
}
