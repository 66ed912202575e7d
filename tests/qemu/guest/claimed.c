/* Frames that a test holds: claimed PROCESS COUNT MIB [stop] waits until the process has claimed MIB for a test,
 * stops it if asked to, and prints COUNT times, spread over what is claimed, the frames of two pages that follow
 * each other, and which page of the mapping the first is. Ends with 1, printing nothing, if the process ends before.
 * Rampart keeps what it claims from children and core dumps (VmFlags dc, dd), memtester locks it into memory (lo). */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, SMALLEST = 1 << 20, ABSENT = 300 };

#define PRESENT (1ull << 63)
#define NUMBER ((1ull << 55) - 1)

static uint64_t *frames;
static size_t count;

/* Appends the frames of the pages from start to end; 0 for a page without one. */
static void append(FILE *pagemap, uint64_t start, uint64_t end) {
    size_t pages = (end - start) / PAGE;
    frames = realloc(frames, (count + pages) * sizeof *frames);
    if (!frames || fseek(pagemap, (long)(start / PAGE * sizeof *frames), SEEK_SET)) exit(3);
    pages = fread(frames + count, sizeof *frames, pages, pagemap);
    for (size_t page = count; page < count + pages; page++)
        frames[page] = frames[page] & PRESENT ? frames[page] & NUMBER : 0;
    count += pages;
}

/* Reads which frames the process has claimed; how many, or -1 if it is gone. */
static long look(const char *process) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%s/pagemap", process);
    FILE *pagemap = fopen(path, "r");
    snprintf(path, sizeof path, "/proc/%s/smaps", process);
    FILE *smaps = fopen(path, "r");
    if (!pagemap || !smaps) return -1;
    unsigned long start = 0, end = 0;
    long lines = 0, held = 0;
    count = 0;
    while (fgets(line, sizeof line, smaps)) {
        unsigned long first, behind;
        lines++;
        if (sscanf(line, "%lx-%lx ", &first, &behind) == 2) {
            start = first;
            end = behind;
        } else if (!strncmp(line, "VmFlags:", 8) && end - start >= SMALLEST &&
                   ((strstr(line, " dc") && strstr(line, " dd")) || strstr(line, " lo"))) {
            append(pagemap, start, end);
        }
    }
    fclose(smaps);
    fclose(pagemap);
    for (size_t page = 0; page < count; page++) held += frames[page] != 0;
    return lines ? held : -1;
}

int main(int arguments, char **values) {
    if (arguments < 4) return 2;
    size_t pairs = strtoull(values[2], NULL, 10);
    long least = strtol(values[3], NULL, 10) << 8, held, absent = 0;
    while ((held = look(values[1])) < least) {
        /* A process that is about to run another program shows nothing for a moment, too. */
        absent = held < 0 ? absent + 1 : 0;
        if (absent == ABSENT) return 1;
        usleep(1000);
    }
    if (arguments > 4) kill((pid_t)atoi(values[1]), SIGSTOP);
    if (held < 2 * (long)pairs) return 1;
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
