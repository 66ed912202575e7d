/* A library that does things to its heap before a guard has begun: of eight pages, two are given back and two have
 * their rights taken. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, EARLY = 8 };

static unsigned char *pages;

unsigned char *early_pages(void);
unsigned char *early_pages(void) { return pages; }

__attribute__((constructor)) static void begin(void) {
    pages = aligned_alloc(PAGE, EARLY * PAGE);
    for (size_t byte = 0; pages && byte < EARLY * PAGE; byte++) {
        unsigned char content = (unsigned char)(byte / PAGE * 31 + byte % PAGE * 7 + 1);
        pages[byte] = content ? content : 255;
    }
    if (!pages || madvise(pages + PAGE, 2 * PAGE, MADV_DONTNEED) || mprotect(pages + 4 * PAGE, 2 * PAGE, PROT_NONE)) abort();
}
