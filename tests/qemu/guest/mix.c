/* mix KIND PROCESSES SIZE SEED: a computation, in so many processes, each of which uses memory in the way of programs
   of PARSEC [Panwar15, table 6.2]; they are not these programs.

     graph      swaps nodes of a graph at random, as canneal        SIZE: thousands of nodes
     points     distances of points to centres, in a row            SIZE: thousands of points
     options    prices by floating-point series, little memory      SIZE: options
     patterns   a tree of many small allocations, as freqmine       SIZE: thousands of words
     frames     large buffers, made and dropped, as vips, x264      SIZE: frames of 3 MiB
     pipeline   processes that pass blocks on by pipes, as dedup    SIZE: blocks of 64 KiB

     large      one large allocation, filled, then read at random  SIZE: MiB
     burst      one large allocation, a word of each page written  SIZE: MiB

   Prints the exclusive or of the processes' results. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"

enum { WIDTH = 16, CENTRES = 8, FRAME = 3 << 20, BLOCK = 64 << 10, TABLE = 1 << 16 };

static uint64_t state;

static uint64_t dice(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void *memory(size_t bytes) {
    void *start = malloc(bytes);
    must(start != NULL, "malloc");
    return start;
}

static uint64_t graph(long thousands) {
    typedef struct { uint32_t neighbours[6], place, pad; } Node;
    uint64_t count = (uint64_t)thousands * 1000, cost = 0;
    Node *nodes = memory(count * sizeof *nodes);
    for (uint64_t each = 0; each < count; each++) {
        for (int edge = 0; edge < 6; edge++) nodes[each].neighbours[edge] = (uint32_t)(dice() % count);
        nodes[each].place = (uint32_t)each;
    }
    for (uint64_t swap = 0; swap < count * 2; swap++) {
        Node *one = &nodes[dice() % count], *other = &nodes[dice() % count];
        int64_t gain = 0;
        for (int edge = 0; edge < 6; edge++) {
            gain += llabs((int64_t)one->place - nodes[one->neighbours[edge]].place);
            gain -= llabs((int64_t)other->place - nodes[one->neighbours[edge]].place);
        }
        if (gain > 0) {
            uint32_t place = one->place;
            one->place = other->place, other->place = place;
            cost += (uint64_t)gain;
        }
    }
    free(nodes);
    return cost;
}

static uint64_t points(long thousands) {
    long count = thousands * 1000;
    int32_t (*all)[WIDTH] = memory((size_t)count * sizeof *all);
    uint64_t sum = 0;
    for (long point = 0; point < count; point++)
        for (int axis = 0; axis < WIDTH; axis++) all[point][axis] = (int32_t)(dice() % 1000);
    for (long centre = 0; centre < CENTRES; centre++)
        for (long point = 0; point < count; point++) {
            uint32_t distance = 0;
            for (int axis = 0; axis < WIDTH; axis++) {
                int32_t away = all[point][axis] - all[centre * 7][axis];
                distance += (uint32_t)(away * away);
            }
            sum += distance;
        }
    free(all);
    return sum;
}

static uint64_t options(long count) {
    double sum = 0;
    for (long option = 0; option < count; option++) {
        double rate = (double)(dice() % 1000) / 1000, term = 1, price = 1;
        for (int step = 1; step < 30; step++) term *= rate / step, price += term;
        sum += price;
    }
    return (uint64_t)(sum * 1000);
}

typedef struct Pattern { struct Pattern *next, *first; uint32_t item, seen; } Pattern;

static Pattern *follow(Pattern *from, uint32_t item) {
    Pattern *found = from->first;
    while (found && found->item != item) found = found->next;
    if (!found) {
        found = memory(sizeof *found);
        *found = (Pattern){.next = from->first, .item = item};
        from->first = found;
    }
    found->seen++;
    return found;
}

static uint64_t weigh(const Pattern *tree, uint64_t depth) {
    uint64_t sum = (uint64_t)tree->seen * tree->seen * (tree->item + depth);
    for (const Pattern *child = tree->first; child; child = child->next) sum += weigh(child, depth + 1);
    return sum;
}

static uint64_t patterns(long thousands) {
    Pattern root = {0};
    for (long word = 0; word < thousands * 1000; word++) {
        Pattern *at = &root;
        uint64_t letters = dice();
        for (int letter = 0; letter < 8; letter++) at = follow(at, (uint32_t)(letters >> (letter * 4) & 15));
    }
    return weigh(&root, 0);
}

static uint64_t fill(long mib, uint64_t step) {
    uint64_t words = (uint64_t)mib << 17, sum = 0, *all = memory(words * sizeof *all);
    for (uint64_t word = 0; word < words; word += step) all[word] = word * 0x9e3779b97f4a7c15;
    for (long access = 0; access < 200000; access++) {
        uint64_t *word = &all[dice() % words];
        sum = sum * 31 + *word, *word ^= sum;
    }
    free(all);
    return sum;
}

static uint64_t large(long mib) { return fill(mib, 1); }

static uint64_t burst(long mib) { return fill(mib, 512); }

static uint64_t frames(long count) {
    uint64_t sum = 0;
    for (long frame = 0; frame < count; frame++) {
        unsigned *from = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned *to = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(from != MAP_FAILED && to != MAP_FAILED, "mmap");
        for (long at = 0; at < FRAME / 4; at++) from[at] = (unsigned)(at * (frame + 3));
        for (long at = 1; at < FRAME / 4 - 1; at++) to[at] = (from[at - 1] + 2 * from[at] + from[at + 1]) / 4;
        sum += to[dice() % (FRAME / 4)];
        must(munmap(from, FRAME) == 0 && munmap(to, FRAME) == 0, "munmap");
    }
    return sum;
}

static int move(int end, char *block, int out) {
    for (ssize_t done = 0, part; done < BLOCK; done += part) {
        part = out ? write(end, block + done, (size_t)(BLOCK - done)) : read(end, block + done, (size_t)(BLOCK - done));
        if (part == 0 && done == 0) return 0;
        must(part > 0, "pipe");
    }
    return 1;
}

/* A stage: reads blocks, works on each, passes it on. */
static int stage(int from, int others) {
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        char *block = memory(BLOCK);
        close(ends[0]);
        if (others >= 0) close(others);
        while (move(from, block, 0)) {
            for (int at = 1; at < BLOCK; at++) block[at] = (char)(block[at] * 31 + block[at - 1]);
            move(ends[1], block, 1);
        }
        _exit(0);
    }
    close(ends[1]), close(from);
    return ends[0];
}

/* Blocks that repeat pass two stages; those that come for the first time are kept, as a store of data does. */
static uint64_t pipeline(long count) {
    int source[2];
    uint64_t sum = 0, *seen = calloc(TABLE, sizeof *seen);
    char *block = memory(BLOCK);
    must(seen && pipe(source) == 0, "pipe");
    int end = stage(stage(source[0], source[1]), source[1]);
    pid_t writer = fork();
    must(writer >= 0, "fork");
    if (writer == 0) {
        for (long each = 0; each < count; each++) {
            uint64_t kind = dice() % ((uint64_t)count / 2 + 1);
            for (int at = 0; at < BLOCK; at++) block[at] = (char)(at * (int)(kind + 1));
            move(source[1], block, 1);
        }
        _exit(0);
    }
    close(source[1]);
    while (move(end, block, 0)) {
        uint64_t hash = 0xcbf29ce484222325;
        for (int at = 0; at < BLOCK; at += 8) hash = (hash ^ *(uint64_t *)(void *)(block + at)) * 0x100000001b3;
        uint64_t place = hash % TABLE;
        while (seen[place] && seen[place] != hash) place = (place + 1) % TABLE;
        if (!seen[place]) memcpy(memory(BLOCK), block, BLOCK);
        seen[place] = hash;
        sum += hash;
    }
    while (waitpid(-1, NULL, 0) > 0) continue;
    return sum;
}

static const struct { const char *name; uint64_t (*run)(long); } KINDS[] = {
    {"graph", graph}, {"points", points}, {"options", options},
    {"patterns", patterns}, {"frames", frames}, {"pipeline", pipeline},
    {"large", large}, {"burst", burst},
};

static uint64_t run(const char *kind, long size) {
    for (size_t each = 0; each < sizeof KINDS / sizeof *KINDS; each++)
        if (!strcmp(KINDS[each].name, kind)) return KINDS[each].run(size);
    must(0, kind);
    return 0;
}

int main(int count, char **arguments) {
    must(count == 5, "mix KIND PROCESSES SIZE SEED");
    int processes = atoi(arguments[2]), ends[2], status;
    uint64_t all = 0, one;
    must(pipe(ends) == 0, "pipe");
    for (int process = 0; process < processes; process++) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            state = 88172645463325252u + strtoull(arguments[4], NULL, 10) * 64 + (uint64_t)process;
            one = run(arguments[1], atol(arguments[3]));
            must(write(ends[1], &one, sizeof one) == sizeof one, "write");
            _exit(0);
        }
    }
    for (int process = 0; process < processes; process++) {
        must(wait(&status) > 0 && status == 0, "a process failed");
        must(read(ends[0], &one, sizeof one) == sizeof one, "read");
        all ^= one;
    }
    printf("%llu\n", (unsigned long long)all);
    return 0;
}
