/* Frames that a test holds: claimed PROCESS COUNT MIB prints, spread over all that the process has claimed for a test, COUNT
 * times the frames of two pages that follow each other, and which page of the mapping the first is; and ends with 1,
 * printing nothing, while it holds less than MIB. Rampart keeps what it claims from children and core dumps (VmFlags dc,
 * dd), memtester locks it into memory (lo). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, SMALLEST = 1 << 20 };

#define PRESENT (1ull << 63)
#define NUMBER ((1ull << 55) - 1)

static uint64_t *frames;
static size_t count;

/* Appends the frames of the pages from start to end; 0 for a page without one. */
static void append(FILE *pagemap, uint64_t start, uint64_t end) {
    size_t pages = (end - start) / PAGE;
    frames = realloc(frames, (count + pages) * sizeof *frames);
    if (!frames || fseek(pagemap, (long)(start / PAGE * sizeof *frames), SEEK_SET)) exit(3);
    if (fread(frames + count, sizeof *frames, pages, pagemap) != pages) exit(3);
    for (size_t page = count; page < count + pages; page++)
        frames[page] = frames[page] & PRESENT ? frames[page] & NUMBER : 0;
    count += pages;
}

int main(int arguments, char **values) {
    if (arguments != 4) return 2;
    size_t pairs = strtoull(values[2], NULL, 10), least = strtoull(values[3], NULL, 10) << 20;
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%s/pagemap", values[1]);
    FILE *pagemap = fopen(path, "r");
    snprintf(path, sizeof path, "/proc/%s/smaps", values[1]);
    FILE *smaps = fopen(path, "r");
    if (!pagemap || !smaps) return 1;
    unsigned long start = 0, end = 0;
    while (fgets(line, sizeof line, smaps)) {
        unsigned long first, behind;
        if (sscanf(line, "%lx-%lx ", &first, &behind) == 2) {
            start = first;
            end = behind;
        } else if (!strncmp(line, "VmFlags:", 8) && end - start >= SMALLEST &&
                   ((strstr(line, " dc") && strstr(line, " dd")) || strstr(line, " lo"))) {
            append(pagemap, start, end);
        }
    }
    size_t held = 0;
    for (size_t page = 0; page < count; page++) held += frames[page] != 0;
    if (held * PAGE < least || held < 2 * pairs) return 1;
    /* From the first page of each part on, the first two that are there. */
    size_t page = 0;
    for (size_t pair = 0; pair < pairs; pair++) {
        if (page < pair * count / pairs) page = pair * count / pairs;
        while (page + 1 < count && !(frames[page] && frames[page + 1])) page++;
        if (page + 1 >= count) break;
        printf("%llu %llu %zu\n", (unsigned long long)frames[page], (unsigned long long)frames[page + 1], page);
        page += 2;
    }
    return 0;
}
