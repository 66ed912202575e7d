/* See randomness.h. */
#include "randomness.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "callers.h"
#include "identity.h"

#define BLOCK 64

/* The length of a device. More than that is seldom read of one that is opened once. */
#define DEVICE_BYTES (1 << 20)

static struct {
    bool is_there;
    uint32_t key[8];
    uint32_t stream; /* 0 is that of the job, rank + 1 that of a rank */
    uint64_t blocks; /* drawn so far */
    unsigned char rest[BLOCK];
    size_t left; /* bytes at the end of the rest */
} chance;

static uint32_t rotated(uint32_t word, int places)
{
    return word << places | word >> (32 - places);
}

static void quarter_round(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b, *d = rotated(*d ^ *a, 16);
    *c += *d, *b = rotated(*b ^ *c, 12);
    *a += *b, *d = rotated(*d ^ *a, 8);
    *c += *d, *b = rotated(*b ^ *c, 7);
}

/* One block of a stream [RFC 8439, 2.3.1, with a counter of 64 bits as in the first ChaCha]. */
static void make_block(uint32_t stream, uint64_t number, unsigned char *block)
{
    uint32_t first[16] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }, word[16];
    memcpy(first + 4, chance.key, sizeof chance.key);
    first[12] = (uint32_t)number;
    first[13] = (uint32_t)(number >> 32);
    first[15] = stream;
    memcpy(word, first, sizeof word);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++)
            quarter_round(&word[i], &word[4 + i], &word[8 + i], &word[12 + i]);
        for (int i = 0; i < 4; i++)
            quarter_round(&word[i], &word[4 + (i + 1) % 4], &word[8 + (i + 2) % 4], &word[12 + (i + 3) % 4]);
    }
    for (int i = 0; i < 16; i++)
        word[i] += first[i];
    memcpy(block, word, sizeof word);
}

static void draw(void *bytes, size_t size)
{
    unsigned char *next = bytes;
    while (size) {
        if (!chance.left) {
            make_block(chance.stream, chance.blocks++, chance.rest);
            chance.left = BLOCK;
        }
        size_t now = size < chance.left ? size : chance.left;
        memcpy(next, chance.rest + BLOCK - chance.left, now);
        chance.left -= now;
        next += now;
        size -= now;
    }
}

void begin_random(const char *folder, int rank)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/seed", folder);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    chance.is_there = file >= 0 && read(file, chance.key, sizeof chance.key) == sizeof chance.key;
    chance.stream = (uint32_t)rank + 1;
    if (file >= 0)
        close(file);
    /* The C library has used these bytes already; a program may still read them. */
    void *of_kernel = (void *)getauxval(AT_RANDOM);
    if (chance.is_there && of_kernel)
        draw(of_kernel, 16);
}

uint32_t drawn_for_job(void)
{
    uint32_t block[BLOCK / sizeof(uint32_t)];
    make_block(0, 0, (unsigned char *)block);
    return block[0];
}

static bool draws(const void *caller)
{
    return chance.is_there && is_in_order() && !comes_from_mpi(caller);
}

ssize_t getrandom_for(void *buffer, size_t length, unsigned flags, const void *caller)
{
    REAL(getrandom);
    ssize_t result = real(buffer, length, flags);
    if (result > 0 && draws(caller)) {
        result = (ssize_t)length;
        draw(buffer, length);
    }
    return result;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    return getrandom_for(buffer, length, flags, CALLER);
}

int getentropy(void *buffer, size_t length)
{
    REAL(getentropy);
    int result = real(buffer, length);
    if (!result && draws(CALLER))
        draw(buffer, length);
    return result;
}

/* Of glibc since 2.36, and of libbsd. */
uint32_t arc4random(void);
uint32_t arc4random(void)
{
    REAL(arc4random);
    uint32_t number;
    if (!draws(CALLER))
        return real();
    draw(&number, sizeof number);
    return number;
}

void arc4random_buf(void *buffer, size_t length);
void arc4random_buf(void *buffer, size_t length)
{
    REAL(arc4random_buf);
    if (draws(CALLER))
        draw(buffer, length);
    else
        real(buffer, length);
}

/* Each number below the end is as likely as the others. */
uint32_t arc4random_uniform(uint32_t end);
uint32_t arc4random_uniform(uint32_t end)
{
    REAL(arc4random_uniform);
    uint32_t number;
    if (!draws(CALLER))
        return real(end);
    if (end < 2)
        return 0;
    do
        draw(&number, sizeof number);
    while (number < -end % end);
    return number % end;
}

/* std::random_device of GCC's library, which asks the CPU. */
#define OF_DEVICE "_ZNSt13random_device9_M_getvalEv"
unsigned number_of_device(void *device) __asm__(OF_DEVICE);
unsigned number_of_device(void *device)
{
    static unsigned (*real)(void *);
    unsigned number;
    if (!real)
        real = (unsigned (*)(void *))dlsym(RTLD_NEXT, OF_DEVICE);
    if (!draws(CALLER))
        return real(device);
    draw(&number, sizeof number);
    return number;
}

const char *path_of_device(const char *path, const void *caller, char *room)
{
    /* It is needed until its path was opened, which is before the next one is asked for. The program may have closed it
     * with all others meanwhile. */
    static int last = -1;
    static struct stat last_status;
    struct stat status;
    if (!path || (strcmp(path, "/dev/urandom") && strcmp(path, "/dev/random")) || !draws(caller))
        return path;
    int file = memfd_create("random", MFD_CLOEXEC);
    void *bytes = MAP_FAILED;
    if (file >= 0 && !ftruncate(file, DEVICE_BYTES))
        bytes = mmap(NULL, DEVICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) {
        close(file);
        return path;
    }
    draw(bytes, DEVICE_BYTES);
    munmap(bytes, DEVICE_BYTES);
    if (last >= 0 && !fstat(last, &status) && status.st_dev == last_status.st_dev && status.st_ino == last_status.st_ino)
        close(last);
    last = file;
    fstat(last, &last_status);
    snprintf(room, PATH_MAX, "/proc/self/fd/%d", file);
    return room;
}
