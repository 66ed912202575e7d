/* Counts words in a tree whose nodes lie on the heap: a runtime in C. Prints the sum of all counts, the words in order
 * with theirs, and how many objects are live. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rampart_heap.h"

enum { LEFT, RIGHT, REFERENCES };

static rampart_heap *heap;
static rampart_reference root;

static void visit_roots(void *context, rampart_visit visit, void *visitor) {
    rampart_reference *held = context;
    *held = visit(visitor, *held);
}

/* What a node holds: a count, then the word. */
static uint32_t *bytes_of(rampart_reference node) {
    return rampart_heap_bytes(heap, node);
}

static void count(const char *word) {
    rampart_reference node = root, above = 0;
    uint32_t side = LEFT;
    while (node) {
        int order = strcmp(word, (const char *)(bytes_of(node) + 1));
        if (order == 0) {
            ++*bytes_of(node);
            return;
        }
        above = node;
        side = order < 0 ? LEFT : RIGHT;
        node = rampart_heap_load(heap, node, side);
    }
    /* The allocation may move what is above: it is the root that is asked for the way again. */
    rampart_reference made = rampart_heap_allocate(heap, REFERENCES, (uint32_t)(sizeof(uint32_t) + strlen(word) + 1));
    if (!made) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    *bytes_of(made) = 1;
    strcpy((char *)(bytes_of(made) + 1), word);
    if (!above) {
        root = made;
        return;
    }
    for (node = root; node; node = rampart_heap_load(heap, node, side)) {
        above = node;
        side = strcmp(word, (const char *)(bytes_of(node) + 1)) < 0 ? LEFT : RIGHT;
    }
    if (rampart_heap_store(heap, above, side, made) != 0 || rampart_heap_store(heap, above, REFERENCES, made) != -1) {
        exit(2);
    }
}

static uint32_t print(rampart_reference node) {
    if (!node) {
        return 0;
    }
    uint32_t before = print(rampart_heap_load(heap, node, LEFT));
    printf("%s %" PRIu32 "\n", (const char *)(bytes_of(node) + 1), *bytes_of(node));
    return before + *bytes_of(node) + print(rampart_heap_load(heap, node, RIGHT));
}

int main(int count_of_arguments, char **arguments) {
    if (count_of_arguments != 3) {
        return 2;
    }
    rampart_heap_settings settings = {
        .pages = 256, .failed = atof(arguments[1]), .seed = 7, .line = 0, .stress = (uint32_t)atoi(arguments[2])};
    rampart_heap_settings wrong = settings;
    wrong.line = 100;
    heap = rampart_heap_create(&settings, visit_roots, &root);
    if (!heap || rampart_heap_create(&wrong, visit_roots, &root) || rampart_heap_create(NULL, visit_roots, &root)) {
        return 2;
    }
    uint32_t number = 1;
    for (int turn = 0; turn < 3000; ++turn) {
        char word[32];
        number = number * 1664525 + 1013904223;
        snprintf(word, sizeof word, "word%" PRIu32, number >> 24);
        count(word);
        if (turn % 500 == 250) {
            /* A line with a pinned object fails, and one behind it. */
            rampart_heap_pin(heap, root, 1);
            rampart_heap_fail_line(heap, root);
            rampart_heap_fail_line(heap, root + 640);
            rampart_heap_collect(heap, RAMPART_FULL);
            rampart_heap_pin(heap, root, 0);
        }
    }
    rampart_heap_collect(heap, RAMPART_COMPACTING);
    printf("%" PRIu32 " in all\n", print(root));
    printf("%" PRId64 " objects\n", rampart_heap_verify(heap));
    fprintf(stderr, "%" PRIu64 "\n", rampart_heap_collections(heap));
    rampart_heap_destroy(heap);
    rampart_heap_destroy(NULL);
    return 0;
}
