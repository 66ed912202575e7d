/* Pages whose content can be computed again. `pages COUNT` fills so many, prints "ready PID ADDRESS", and obeys, one
 * line each:
 *
 * check PAGE              answers "right" or "wrong WORD FOUND" write PAGE GENERATION   gives the page other
 * content, answers "written" check-all               answers "right" or "wrong WORD FOUND"
 *
 * It ends with the orders; what it reads and writes lies outside of the heap. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 512
#define MOST 65536

static uint64_t (*pages)[WORDS];
static unsigned char generations[MOST];
static unsigned count;

/* The attacker computes the same. */
static uint64_t content(uint64_t page, uint64_t generation, uint64_t word)
{
    uint64_t x = (page << 32 | generation << 16 | word) + 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static void fill(unsigned page)
{
    for (unsigned word = 0; word < WORDS; word++)
        pages[page][word] = content(page, generations[page], word);
}

static void answer(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(4);
}

/* Whether a page is as it must be; if not, says so. */
static int is_right(unsigned page)
{
    for (unsigned word = 0; word < WORDS; word++) {
        uint64_t found = pages[page][word];
        if (found != content(page, generations[page], word)) {
            char line[80];
            snprintf(line, sizeof line, "wrong %u %016llx\n", page * WORDS + word, (unsigned long long)found);
            answer(line);
            return 0;
        }
    }
    return 1;
}

static void check(unsigned first, unsigned end)
{
    for (unsigned page = first; page < end; page++)
        if (!is_right(page))
            return;
    answer("right\n");
}

static int read_line(char *line, size_t size)
{
    size_t length = 0;
    while (length + 1 < size && read(0, line + length, 1) == 1) {
        if (line[length] == '\n') {
            line[length] = 0;
            return 1;
        }
        length++;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static char line[80];
    unsigned page, generation;
    count = argc == 2 ? atoi(argv[1]) : 0;
    if (count == 0 || count > MOST || !(pages = aligned_alloc(4096, count * sizeof *pages)))
        return 2;
    for (page = 0; page < count; page++)
        fill(page);
    snprintf(line, sizeof line, "ready %d %p\n", (int)getpid(), (void *)pages);
    answer(line);
    while (read_line(line, sizeof line)) {
        if (strcmp(line, "check-all") == 0) {
            check(0, count);
        } else if (sscanf(line, "check %u", &page) == 1 && page < count) {
            check(page, page + 1);
        } else if (sscanf(line, "write %u %u", &page, &generation) == 2 && page < count) {
            generations[page] = generation;
            fill(page);
            answer("written\n");
        } else {
            return 2;
        }
    }
    return 0;
}
