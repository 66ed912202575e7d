/* The functions of the C library that open a file or look at it. Each gives the real one the path at which the team has
 * the file; see files.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "callers.h"
#include "files.h"

#define READ(folder, path, last) path_to_read(folder, path, last, CALLER, &place)
#define WRITE(folder, path, flags) path_to_write(folder, path, FOLLOW, flags, CALLER, &place)

/* The other name of a function, for files of any size: the same where sizes have 64 bits. */
#define ALSO(result, other, name, ...) result other(__VA_ARGS__) __attribute__((alias(#name)))

_Static_assert(sizeof(off_t) == 8, "sizes of files have 64 bits");

static const char *path_to_open(int folder, const char *path, int flags, const void *caller, struct place *place)
{
    bool is_temporary = (flags & O_TMPFILE) == O_TMPFILE;
    bool writes = flags & (O_CREAT | O_TRUNC) || (flags & O_ACCMODE) != O_RDONLY;
    enum last_link last = flags & O_NOFOLLOW ? DO_NOT_FOLLOW : FOLLOW;
    if (is_temporary)
        return path;
    return writes && !(flags & O_PATH) ? path_to_write(folder, path, last, flags, caller, place)
                                       : path_to_read(folder, path, last, caller, place);
}

/* The mode is there only where a file can be created. */
#define MODE_AFTER(last)                                                             \
    mode_t mode = 0;                                                                 \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                       \
        va_list rest;                                                                \
        va_start(rest, last);                                                        \
        mode = va_arg(rest, mode_t);                                                 \
        va_end(rest);                                                                \
    }

int open(const char *path, int flags, ...)
{
    REAL(open);
    struct place place;
    MODE_AFTER(flags)
    return real(path_to_open(AT_FDCWD, path, flags, CALLER, &place), flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    REAL(openat);
    struct place place;
    MODE_AFTER(flags)
    return real(folder, path_to_open(folder, path, flags, CALLER, &place), flags, mode);
}

int creat(const char *path, mode_t mode)
{
    REAL(creat);
    struct place place;
    return real(WRITE(AT_FDCWD, path, O_CREAT | O_TRUNC), mode);
}

ALSO(int, open64, open, const char *path, int flags, ...);
ALSO(int, openat64, openat, int folder, const char *path, int flags, ...);
ALSO(int, creat64, creat, const char *path, mode_t mode);

/* What the compiler calls instead where it knows that there is no mode. */
int __open_2(const char *path, int flags)
{
    REAL(open);
    struct place place;
    return real(path_to_open(AT_FDCWD, path, flags, CALLER, &place), flags);
}

int __openat_2(int folder, const char *path, int flags)
{
    REAL(openat);
    struct place place;
    return real(folder, path_to_open(folder, path, flags, CALLER, &place), flags);
}

ALSO(int, __open64_2, __open_2, const char *path, int flags);
ALSO(int, __openat64_2, __openat_2, int folder, const char *path, int flags);

/* The flags of a mode of fopen [POSIX]. */
static int flags_of(const char *mode)
{
    bool both = strchr(mode, '+'), is_new = strchr(mode, 'x');
    int flags = both ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
    if (*mode == 'w')
        flags |= O_CREAT | O_TRUNC;
    if (*mode == 'a')
        flags |= O_CREAT | O_APPEND;
    return is_new ? flags | O_EXCL : flags;
}

FILE *fopen(const char *path, const char *mode)
{
    REAL(fopen);
    struct place place;
    return real(path_to_open(AT_FDCWD, path, flags_of(mode), CALLER, &place), mode);
}

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    REAL(freopen);
    struct place place;
    return real(path ? path_to_open(AT_FDCWD, path, flags_of(mode), CALLER, &place) : NULL, mode, stream);
}

ALSO(FILE *, fopen64, fopen, const char *path, const char *mode);
ALSO(FILE *, freopen64, freopen, const char *path, const char *mode, FILE *stream);

DIR *opendir(const char *path)
{
    REAL(opendir);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW));
}

static enum last_link last_of(int flags)
{
    return flags & AT_SYMLINK_NOFOLLOW ? DO_NOT_FOLLOW : FOLLOW;
}

/* The functions that tell the status of a file, for both sizes of its numbers. */
#define STATUS_FUNCTIONS(stat, lstat, fstatat, type)                                      \
    int stat(const char *path, struct type *status)                                       \
    {                                                                                     \
        REAL(stat);                                                                       \
        struct place place;                                                               \
        return real(READ(AT_FDCWD, path, FOLLOW), status);                                \
    }                                                                                     \
    int lstat(const char *path, struct type *status)                                      \
    {                                                                                     \
        REAL(lstat);                                                                      \
        struct place place;                                                               \
        return real(READ(AT_FDCWD, path, DO_NOT_FOLLOW), status);                         \
    }                                                                                     \
    int fstatat(int folder, const char *path, struct type *status, int flags)             \
    {                                                                                     \
        REAL(fstatat);                                                                    \
        struct place place;                                                               \
        return real(folder, READ(folder, path, last_of(flags)), status, flags);           \
    }
STATUS_FUNCTIONS(stat, lstat, fstatat, stat)
STATUS_FUNCTIONS(stat64, lstat64, fstatat64, stat64)

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *status)
{
    REAL(statx);
    struct place place;
    return real(folder, READ(folder, path, last_of(flags)), flags, mask, status);
}

/* Their names before glibc 2.33, which older programs use; glibc still has them, but does not declare them. */
#define OLD_STATUS_FUNCTIONS(stat, lstat, fstatat, type)                                                \
    int stat(int version, const char *path, struct type *status);                                       \
    int lstat(int version, const char *path, struct type *status);                                      \
    int fstatat(int version, int folder, const char *path, struct type *status, int flags);             \
    int stat(int version, const char *path, struct type *status)                                        \
    {                                                                                                   \
        REAL(stat);                                                                                     \
        struct place place;                                                                             \
        return real(version, READ(AT_FDCWD, path, FOLLOW), status);                                     \
    }                                                                                                   \
    int lstat(int version, const char *path, struct type *status)                                       \
    {                                                                                                   \
        REAL(lstat);                                                                                    \
        struct place place;                                                                             \
        return real(version, READ(AT_FDCWD, path, DO_NOT_FOLLOW), status);                              \
    }                                                                                                   \
    int fstatat(int version, int folder, const char *path, struct type *status, int flags)              \
    {                                                                                                   \
        REAL(fstatat);                                                                                  \
        struct place place;                                                                             \
        return real(version, folder, READ(folder, path, last_of(flags)), status, flags);                \
    }
OLD_STATUS_FUNCTIONS(__xstat, __lxstat, __fxstatat, stat)
OLD_STATUS_FUNCTIONS(__xstat64, __lxstat64, __fxstatat64, stat64)

int access(const char *path, int mode)
{
    REAL(access);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW), mode);
}

int euidaccess(const char *path, int mode)
{
    REAL(euidaccess);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW), mode);
}

int faccessat(int folder, const char *path, int mode, int flags)
{
    REAL(faccessat);
    struct place place;
    return real(folder, READ(folder, path, last_of(flags)), mode, flags);
}

ssize_t readlink(const char *path, char *target, size_t room)
{
    REAL(readlink);
    struct place place;
    return real(READ(AT_FDCWD, path, DO_NOT_FOLLOW), target, room);
}

ssize_t readlinkat(int folder, const char *path, char *target, size_t room)
{
    REAL(readlinkat);
    struct place place;
    return real(folder, READ(folder, path, DO_NOT_FOLLOW), target, room);
}

int chdir(const char *path)
{
    REAL(chdir);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW));
}

/* What programs learn of the way to a file is its place outside. */
char *getcwd(char *place, size_t room)
{
    REAL(getcwd);
    char *where = real(place, room);
    const char *shown = where && !comes_from_mpi(CALLER) ? path_outside(where) : where;
    if (where && shown != where)
        memmove(where, shown, strlen(shown) + 1);
    return where;
}

char *realpath(const char *path, char *found)
{
    REAL(realpath);
    struct place place;
    if (READ(AT_FDCWD, path, FOLLOW) != place.upper || !is_in_upper(&place))
        return real(path, found);
    return found ? strcpy(found, place.real) : strdup(place.real);
}

int truncate(const char *path, off_t length)
{
    REAL(truncate);
    struct place place;
    return real(WRITE(AT_FDCWD, path, 0), length);
}

ALSO(int, truncate64, truncate, const char *path, off_t length);

int chmod(const char *path, mode_t mode)
{
    REAL(chmod);
    struct place place;
    return real(WRITE(AT_FDCWD, path, 0), mode);
}

int fchmodat(int folder, const char *path, mode_t mode, int flags)
{
    REAL(fchmodat);
    struct place place;
    return real(folder, WRITE(folder, path, 0), mode, flags);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
    REAL(utimensat);
    struct place place;
    return real(folder, WRITE(folder, path, 0), times, flags);
}
