/* See map.h. */
#include "map.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static struct seat *seats; /* by native rank; null: by the formulas */
static int *natives;       /* by the native rank of the formulas */

void begin_map(const char *folder, int ranks, int replicas)
{
    char path[PATH_MAX];
    int count = ranks * replicas, read = 0;
    snprintf(path, sizeof path, "%s/map", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    seats = calloc((size_t)count, sizeof *seats);
    natives = calloc((size_t)count, sizeof *natives);
    while (seats && natives && read < count && fscanf(file, "%d %d", &seats[read].rank, &seats[read].replica) == 2) {
        int place = seats[read].replica * ranks + seats[read].rank;
        if (place >= 0 && place < count)
            natives[place] = read;
        read++;
    }
    fclose(file);
    if (read == count)
        return;
    free(seats);
    free(natives);
    seats = NULL;
    natives = NULL;
}

struct seat seat_of(int native, int ranks)
{
    return seats ? seats[native] : (struct seat){ .rank = native % ranks, .replica = native / ranks };
}

int native_of(int rank, int replica, int ranks)
{
    int native = replica * ranks + rank;
    return natives ? natives[native] : native;
}
