/* Two processes that wait for each other by polling, as ranks of MPI do, each with a table of which it changes words
 * all over, as RandomAccess of hpcc does. `jumps MIB TURNS`: prints "right" if both tables are as they must be at
 * the end. */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define UPDATES 64

static uint64_t *table;

/* Changes words; the same changes once more undo it. */
static uint64_t update(uint64_t x, uint64_t words)
{
    for (int i = 0; i < UPDATES; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        table[x % words] ^= x;
    }
    return x;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    uint64_t words = strtoull(arguments[1], NULL, 10) << 17, turns = strtoull(arguments[2], NULL, 10);
    _Atomic uint64_t *turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (turn == MAP_FAILED || child < 0)
        return 3;
    uint64_t rank = child == 0;
    table = malloc(words * sizeof *table);
    for (uint64_t word = 0; word < words; word++)
        table[word] = word;
    uint64_t x = 88172645463325252 + rank;
    for (uint64_t i = 0; i < 2 * turns; i++) {
        if (i == turns)
            x = 88172645463325252 + rank;
        while (*turn != 2 * i + rank)
            sched_yield();
        x = update(x, words);
        ++*turn;
    }
    for (uint64_t word = 0; word < words; word++)
        if (table[word] != word)
            return 1;
    int status = 0;
    if (child == 0)
        return 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    puts("right");
    return 0;
}
