/* The functions of the C library that open a file or look at it. Each gives the real one the path at which the team has
 * the file; see files.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "callers.h"
#include "files.h"
#include "identity.h"
#include "randomness.h"

#define READ(folder, path, last) path_to_look_at(folder, path, last, CALLER, &place)
#define WRITE(folder, path, flags) path_to_write(folder, path, FOLLOW, flags, CALLER, &place)

/* The other name of a function, for files of any size: the same where sizes have 64 bits. */
#define ALSO(result, other, name, ...) result other(__VA_ARGS__) __attribute__((alias(#name)))

_Static_assert(sizeof(off_t) == 8, "sizes of files have 64 bits");

static const char *path_to_look_at(int folder, const char *path, enum last_link last, const void *caller,
                                   struct place *place)
{
    const char *of_process = path_of_process(path, place->upper);
    return of_process != path ? of_process : path_to_read(folder, path, last, caller, place);
}

static const char *path_to_open(int folder, const char *path, int flags, const void *caller, struct place *place)
{
    const char *of_device = path_of_device(path, caller, place->upper);
    bool is_temporary = (flags & O_TMPFILE) == O_TMPFILE;
    bool writes = flags & (O_CREAT | O_TRUNC) || (flags & O_ACCMODE) != O_RDONLY;
    enum last_link last = flags & O_NOFOLLOW ? DO_NOT_FOLLOW : FOLLOW;
    const char *special = of_device == path ? path_of_process(path, place->upper) : of_device;
    if (special != path || is_temporary)
        return special;
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
static char *shown_path(char *where)
{
    const char *shown = where ? path_outside(where) : where;
    if (shown != where)
        memmove(where, shown, strlen(shown) + 1);
    return where;
}

char *getcwd(char *place, size_t room)
{
    REAL(getcwd);
    char *where = real(place, room);
    return comes_from_mpi(CALLER) ? where : shown_path(where);
}

char *get_current_dir_name(void)
{
    REAL(get_current_dir_name);
    return comes_from_mpi(CALLER) ? real() : shown_path(real());
}

#define FIND(path) path_to_read(AT_FDCWD, path, FOLLOW, CALLER, &place)

/* The path of what the team sees at a place: that outside. */
static char *found_path(const struct place *place, char *found)
{
    if (is_there(place))
        return found ? strcpy(found, place->real) : strdup(place->real);
    errno = ENOENT;
    return NULL;
}

char *realpath(const char *path, char *found)
{
    REAL(realpath);
    struct place place;
    const char *own = path_of_process(path, place.upper);
    return own != path || FIND(path) == path ? real(own, found) : found_path(&place, found);
}

/* What the compiler calls instead where it knows the room. */
char *__realpath_chk(const char *path, char *found, size_t room);
char *__realpath_chk(const char *path, char *found, size_t room)
{
    REAL(__realpath_chk);
    struct place place;
    const char *own = path_of_process(path, place.upper);
    return own != path || FIND(path) == path ? real(own, found, room) : found_path(&place, found);
}

char *__getcwd_chk(char *place, size_t room, size_t most);
char *__getcwd_chk(char *place, size_t room, size_t most)
{
    REAL(__getcwd_chk);
    char *where = real(place, room, most);
    return comes_from_mpi(CALLER) ? where : shown_path(where);
}

char *canonicalize_file_name(const char *path)
{
    REAL(canonicalize_file_name);
    struct place place;
    const char *own = path_of_process(path, place.upper);
    return own != path || FIND(path) == path ? real(own) : found_path(&place, NULL);
}

int truncate(const char *path, off_t length)
{
    REAL(truncate);
    struct place place;
    return real(WRITE(AT_FDCWD, path, 0), length);
}

ALSO(int, truncate64, truncate, const char *path, off_t length);

#define STATUS(folder, path, last) path_to_write(folder, path, last, CHANGE_STATUS, CALLER, &place)

int chmod(const char *path, mode_t mode)
{
    REAL(chmod);
    struct place place;
    return real(STATUS(AT_FDCWD, path, FOLLOW), mode);
}

int fchmodat(int folder, const char *path, mode_t mode, int flags)
{
    REAL(fchmodat);
    struct place place;
    return real(folder, STATUS(folder, path, last_of(flags)), mode, flags);
}

int chown(const char *path, uid_t owner, gid_t group)
{
    REAL(chown);
    struct place place;
    return real(STATUS(AT_FDCWD, path, FOLLOW), owner, group);
}

int lchown(const char *path, uid_t owner, gid_t group)
{
    REAL(lchown);
    struct place place;
    return real(STATUS(AT_FDCWD, path, DO_NOT_FOLLOW), owner, group);
}

int fchownat(int folder, const char *path, uid_t owner, gid_t group, int flags)
{
    REAL(fchownat);
    struct place place;
    return real(folder, STATUS(folder, path, last_of(flags)), owner, group, flags);
}

int utime(const char *path, const struct utimbuf *times)
{
    REAL(utime);
    struct place place;
    return real(STATUS(AT_FDCWD, path, FOLLOW), times);
}

int utimes(const char *path, const struct timeval times[2])
{
    REAL(utimes);
    struct place place;
    return real(STATUS(AT_FDCWD, path, FOLLOW), times);
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags)
{
    REAL(utimensat);
    struct place place;
    return real(folder, STATUS(folder, path, last_of(flags)), times, flags);
}

int statvfs(const char *path, struct statvfs *status)
{
    REAL(statvfs);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW), status);
}

ssize_t listxattr(const char *path, char *list, size_t room)
{
    REAL(listxattr);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW), list, room);
}

ssize_t llistxattr(const char *path, char *list, size_t room)
{
    REAL(llistxattr);
    struct place place;
    return real(READ(AT_FDCWD, path, DO_NOT_FOLLOW), list, room);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t room)
{
    REAL(getxattr);
    struct place place;
    return real(READ(AT_FDCWD, path, FOLLOW), name, value, room);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t room)
{
    REAL(lgetxattr);
    struct place place;
    return real(READ(AT_FDCWD, path, DO_NOT_FOLLOW), name, value, room);
}

int setxattr(const char *path, const char *name, const void *value, size_t length, int flags)
{
    REAL(setxattr);
    struct place place;
    return real(STATUS(AT_FDCWD, path, FOLLOW), name, value, length, flags);
}
