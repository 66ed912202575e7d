/* holder MILLISECONDS MIB: a program that holds memory for a time, again and again, and knows nothing of what tests it.

   It has MIB in pieces of 64 KiB to 2 MiB, each for so many milliseconds: then it looks whether all is as it was
   written, gives the piece back, and takes another. A third of the pieces are files below /tmp. At SIGTERM it says how
   many pieces it had and ends, with 4 if one was not as it was. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "must.h"

enum { PAGE = 4096, SMALLEST = 64 << 10, LARGEST = 2 << 20, MOST = 4096 };

struct piece {
    uint64_t *words;
    size_t bytes;
    uint64_t number, until;
};

static volatile sig_atomic_t ended;
static struct piece pieces[MOST];
static uint64_t number, wrong;

static void end(int signal) {
    (void)signal;
    ended = 1;
}

static uint64_t mixed(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* A file that is gone by its name, and stays as memory. */
static int file_of(size_t bytes) {
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    must(file >= 0 && ftruncate(file, bytes) == 0, "a file");
    return file;
}

static void take(struct piece *piece, uint64_t hold) {
    piece->number = ++number;
    piece->bytes = SMALLEST << mixed(number) % 6;
    int file = number % 3 == 0 ? file_of(piece->bytes) : -1;
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    piece->words = mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    must(piece->words != MAP_FAILED, "mmap");
    if (file >= 0) close(file);
    for (size_t word = 0; word < piece->bytes / 8; word += 8) piece->words[word] = mixed(number << 20 | word);
    piece->until = now() + hold;
}

static void give(struct piece *piece) {
    for (size_t word = 0; word < piece->bytes / 8; word += 8)
        wrong += piece->words[word] != mixed(piece->number << 20 | word);
    munmap(piece->words, piece->bytes);
    piece->words = NULL;
}

int main(int count, char **arguments) {
    must(count == 3, "holder MILLISECONDS MIB");
    uint64_t hold = strtoull(arguments[1], NULL, 10), most = strtoull(arguments[2], NULL, 10) << 20, held = 0;
    signal(SIGTERM, end);
    for (size_t at = 0; !ended; at = (at + 1) % MOST) {
        struct piece *piece = &pieces[at];
        if (piece->words != NULL && piece->until <= now()) {
            held -= piece->bytes;
            give(piece);
        }
        if (piece->words == NULL && held + LARGEST <= most) {
            take(piece, hold);
            held += piece->bytes;
        }
        if (at == 0) usleep(2000);
    }
    for (size_t at = 0; at < MOST; at++)
        if (pieces[at].words != NULL) give(&pieces[at]);
    printf("%llu pieces, %llu words wrong\n", (unsigned long long)number, (unsigned long long)wrong);
    return wrong == 0 ? 0 : 4;
}
