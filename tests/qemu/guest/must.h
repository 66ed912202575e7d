/* must: what a program of a guest needs to go on. */
#include <stdio.h>
#include <stdlib.h>

static void must(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(1);
}
