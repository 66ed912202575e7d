/* See progress.h. */
#include "progress.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "events.h"

struct progress {
    volatile uint64_t compared, replaced;
};

static struct progress *progress;

void begin_progress(int rank, int replica)
{
    int file = open_report("progress", O_RDWR, rank, replica);
    if (file < 0)
        return;
    if (!ftruncate(file, sizeof *progress)) {
        void *mapped = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        progress = mapped == MAP_FAILED ? NULL : mapped;
    }
    close(file);
}

void note_progress(uint64_t compared, uint64_t replaced)
{
    if (!progress)
        return;
    progress->compared = compared;
    progress->replaced = replaced;
}
