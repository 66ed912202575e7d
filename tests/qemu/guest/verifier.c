/* Fills memory and says so, waits to be told to go on, then round by round reads all of it again and writes the next
 * round's content. It names each page that is not as it was written last, which a guarded program must never see, and
 * after that round ends with 4. The first word of page P in round R is RAM (in ASCII), SALT, P, R, by which
 * others find the page in the machine's RAM. */
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
    printf("filled %d %#lx\n", (int)getpid(), (unsigned long)memory);
    fflush(stdout);
    while (access("/tmp/go", F_OK)) usleep(100000);
    int is_wrong = 0;
    for (uint64_t round = 0; round < rounds && !is_wrong; round++) {
        uint64_t named = pages;
        for (uint64_t at = 0; at < pages * WORDS; at++) {
            uint64_t expected = content(at / WORDS, at % WORDS, round), found = memory[at];
            if (found != expected && named != at / WORDS) {
                printf("wrong in round %d, page %d, word %d: %016llx, not %016llx\n", (int)round, (int)(at / WORDS),
                       (int)(at % WORDS), (unsigned long long)found, (unsigned long long)expected);
                named = at / WORDS;
                is_wrong = 1;
            }
            memory[at] = content(at / WORDS, at % WORDS, round + 1);
        }
    }
    puts(is_wrong ? "wrong" : "right");
    return is_wrong ? 4 : 0;
}
