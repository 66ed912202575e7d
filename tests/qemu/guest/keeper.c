/* Fills memory, says where it is, waits to be told, and looks at all of it again. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8192 };

int main(void) {
    unsigned char *memory = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
    if (!memory) return 3;
    for (size_t byte = 0; byte < (size_t)PAGES * PAGE; byte++) memory[byte] = (unsigned char)(byte * 7 + byte / PAGE);
    printf("%d %zu\n", (int)getpid(), (size_t)memory / PAGE);
    fflush(stdout);
    while (access("/tmp/go", F_OK)) usleep(100000);
    for (size_t byte = 0; byte < (size_t)PAGES * PAGE; byte++)
        if (memory[byte] != (unsigned char)(byte * 7 + byte / PAGE)) return 4;
    puts("right");
    return 0;
}
