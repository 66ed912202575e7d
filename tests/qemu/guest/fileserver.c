/* fileserver FOLDER FILES KIB ROUNDS SEED: a file server, after filebench's personality of this name [Panwar15, 6.3].

   Creates four fifths of FILES files, of KIB KiB on average, 20 in a folder. Each round then creates a file and writes
   it whole, appends to another, reads a third whole, deletes a fourth and asks for the size of a fifth. At the end all
   are deleted. Prints a checksum of what was read. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "must.h"

enum { PER_FOLDER = 20, KIB = 1024, MOST_BYTES = 1024 * KIB, APPENDED = 4 * KIB };

static char content[MOST_BYTES];
static uint64_t state, sum;
static long files, mean;
static unsigned char *exists;

static uint64_t dice(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const char *path(long number) {
    static char name[64];
    snprintf(name, sizeof name, "%ld/%ld", number / PER_FOLDER, number);
    return name;
}

/* A file that exists, or does not; there are always some of both. */
static long any(int wanted) {
    long number = (long)(dice() % (uint64_t)files);
    while (exists[number] != wanted) number = (number + 1) % files;
    return number;
}

/* Of half to one and a half of the mean. */
static void create(long number) {
    long bytes = mean / 2 + (long)(dice() % (uint64_t)mean);
    int file = open(path(number), O_WRONLY | O_CREAT | O_EXCL, 0600);
    must(file >= 0 && write(file, content + number % KIB, (size_t)bytes) == bytes && close(file) == 0, "create");
    exists[number] = 1;
}

static void append(long number) {
    long bytes = 1 + (long)(dice() % APPENDED);
    int file = open(path(number), O_WRONLY | O_APPEND);
    must(file >= 0 && write(file, content, (size_t)bytes) == bytes && close(file) == 0, "append");
}

static void read_whole(long number) {
    static char buffer[64 * KIB];
    ssize_t got;
    int file = open(path(number), O_RDONLY);
    must(file >= 0, "open");
    while ((got = read(file, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < got; at += 509) sum = sum * 31 + (unsigned char)buffer[at];
    must(got == 0 && close(file) == 0, "read");
}

static void delete(long number) {
    must(unlink(path(number)) == 0, "unlink");
    exists[number] = 0;
}

static void ask(long number) {
    struct stat known;
    must(stat(path(number), &known) == 0, "stat");
    sum = sum * 31 + (uint64_t)known.st_size;
}

static void folders(int make) {
    char name[32];
    for (long folder = 0; folder <= (files - 1) / PER_FOLDER; folder++) {
        snprintf(name, sizeof name, "%ld", folder);
        must((make ? mkdir(name, 0700) : rmdir(name)) == 0, "folder");
    }
}

int main(int count, char **arguments) {
    must(count == 6, "fileserver FOLDER FILES KIB ROUNDS SEED");
    files = atol(arguments[2]), mean = atol(arguments[3]) * KIB, state = 88172645463325252u + strtoull(arguments[5], NULL, 10);
    must(files >= 10 && mean >= 2 && mean * 3 / 2 + KIB <= MOST_BYTES, "10 files, up to 600 KiB");
    must(chdir(arguments[1]) == 0, "chdir");
    exists = calloc((size_t)files, 1);
    must(exists != NULL, "memory");
    for (long at = 0; at < MOST_BYTES; at++) content[at] = (char)dice();
    folders(1);
    for (long number = 0; number < files; number++)
        if (number % 5) create(number);
    for (long round = atol(arguments[4]); round > 0; round--) {
        create(any(0));
        append(any(1));
        read_whole(any(1));
        delete(any(1));
        ask(any(1));
    }
    for (long number = 0; number < files; number++)
        if (exists[number]) delete(number);
    folders(0);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
