/* Names that the C library makes up, and names of memory that processes share.
 *
 * Names of temporary files must be the same in all replicas, since programs send them, and files are compared by name.
 * So they are made of the rank and of a number, not of what is random. Shared memory is that of a team: its name gets
 * the number of the team. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "callers.h"
#include "files.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Tries of one name: so many as the C library makes [glibc, sysdeps/posix/tempname.c]. */
#define TRIES 238328

static atomic_uint_least64_t made;

/* Fills in six letters. */
static void make_up(char *letters)
{
    uint64_t number = atomic_fetch_add(&made, 1) * 0x9e3779b97f4a7c15 + (uint64_t)files_rank() * 0xbf58476d1ce4e5b9;
    number ^= number >> 29;
    number *= 0x94d049bb133111eb;
    for (int i = 0; i < 6; i++, number /= 62)
        letters[i] = LETTERS[number % 62];
}

enum made_up { FILE_MADE_UP, FOLDER_MADE_UP };

/* As mkostemps and mkdtemp do. The functions are this library's, which find the team's place. */
static int make_temporary(char *name, int suffix, int flags, enum made_up what)
{
    size_t length = strlen(name);
    if (suffix < 0 || length < 6 + (size_t)suffix || strncmp(name + length - (size_t)suffix - 6, "XXXXXX", 6)) {
        errno = EINVAL;
        return -1;
    }
    for (int i = 0; i < TRIES; i++) {
        struct place place;
        make_up(name + length - suffix - 6);
        if (!find_place(AT_FDCWD, name, DO_NOT_FOLLOW, &place))
            break;
        if (is_there(&place))
            continue;
        if (!prepare_parent(&place))
            return -1;
        int result = what == FOLDER_MADE_UP ? mkdir(place.upper, 0700)
                                            : open(place.upper, O_RDWR | O_CREAT | O_EXCL | flags, 0600);
        if (result >= 0 || errno != EEXIST)
            return result;
    }
    errno = EEXIST;
    return -1;
}

/* Whether the name is one of the team's. */
static bool is_ours(const char *name, const void *caller)
{
    struct place place;
    return find_for_program(AT_FDCWD, name, DO_NOT_FOLLOW, caller, &place);
}

#define TEMPORARY(name, parameters, arguments, suffix, flags)                                           \
    int name parameters                                                                                 \
    {                                                                                                   \
        REAL(name);                                                                                     \
        return is_ours(template, CALLER) ? make_temporary(template, suffix, flags, FILE_MADE_UP) : real arguments; \
    }
TEMPORARY(mkstemp, (char *template), (template), 0, 0)
TEMPORARY(mkstemp64, (char *template), (template), 0, 0)
TEMPORARY(mkostemp, (char *template, int flags), (template, flags), 0, flags)
TEMPORARY(mkostemp64, (char *template, int flags), (template, flags), 0, flags)
TEMPORARY(mkstemps, (char *template, int suffix), (template, suffix), suffix, 0)
TEMPORARY(mkstemps64, (char *template, int suffix), (template, suffix), suffix, 0)
TEMPORARY(mkostemps, (char *template, int suffix, int flags), (template, suffix, flags), suffix, flags)
TEMPORARY(mkostemps64, (char *template, int suffix, int flags), (template, suffix, flags), suffix, flags)

char *mkdtemp(char *template)
{
    REAL(mkdtemp);
    if (!is_ours(template, CALLER))
        return real(template);
    return make_temporary(template, 0, 0, FOLDER_MADE_UP) < 0 ? NULL : template;
}

/* The name of a team's own memory or semaphore. */
static const char *name_of_team(const char *name, const void *caller, char *room)
{
    if (files_rank() < 0 || comes_from_mpi(caller) || snprintf(room, NAME_MAX, "%s.%d", name, files_team()) >= NAME_MAX)
        return name;
    return room;
}

int shm_open(const char *name, int flags, mode_t mode)
{
    REAL(shm_open);
    char room[NAME_MAX];
    return real(name_of_team(name, CALLER, room), flags, mode);
}

int shm_unlink(const char *name)
{
    REAL(shm_unlink);
    char room[NAME_MAX];
    return real(name_of_team(name, CALLER, room));
}

sem_t *sem_open(const char *name, int flags, ...)
{
    REAL(sem_open);
    char room[NAME_MAX];
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    unsigned value = flags & O_CREAT ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    return real(name_of_team(name, CALLER, room), flags, mode, value);
}

int sem_unlink(const char *name)
{
    REAL(sem_unlink);
    char room[NAME_MAX];
    return real(name_of_team(name, CALLER, room));
}

/* The same for what System V names by numbers, which programs make of their process id. */
static key_t key_of_team(key_t key, const void *caller)
{
    if (key == IPC_PRIVATE || files_rank() < 0 || comes_from_mpi(caller))
        return key;
    key_t own = (key_t)((uint32_t)key ^ (uint32_t)(files_team() + 1) * UINT32_C(0x9e3779b1));
    return own == IPC_PRIVATE ? 1 : own;
}

int shmget(key_t key, size_t size, int flags)
{
    REAL(shmget);
    return real(key_of_team(key, CALLER), size, flags);
}

int semget(key_t key, int count, int flags)
{
    REAL(semget);
    return real(key_of_team(key, CALLER), count, flags);
}

int msgget(key_t key, int flags)
{
    REAL(msgget);
    return real(key_of_team(key, CALLER), flags);
}
