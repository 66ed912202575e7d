/* The functions of the C library that make, move and remove files, folders and links, for a team; see files.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "callers.h"
#include "files.h"

/* Whether a call is one of the program's about a file of the team; what a last link leads to is not meant. */
static bool is_ours(int folder, const char *path, const void *caller, struct place *place)
{
    return find_for_program(folder, path, DO_NOT_FOLLOW, caller, place);
}

static int failed(int why)
{
    errno = why;
    return -1;
}

/* What the team sees there. */
static bool see(const struct place *place, struct stat *status)
{
    return is_in_upper(place) ? !lstat(place->upper, status) : is_outside(place, status);
}

/* Whether the team sees nothing in a folder but what is in its upper one. */
static bool is_empty_outside(const struct place *place)
{
    bool is_empty = true;
    struct place child;
    DIR *folder = is_outside(place, NULL) ? opendir(place->real) : NULL;
    for (const struct dirent *next; is_empty && folder && (next = readdir(folder));) {
        bool is_dots = !strcmp(next->d_name, ".") || !strcmp(next->d_name, "..");
        is_empty = is_dots || (place_in(place, next->d_name, &child) && !is_outside(&child, NULL));
    }
    if (folder)
        closedir(folder);
    return is_empty;
}

static int remove_place(const struct place *place, bool is_to_be_folder)
{
    struct stat status;
    if (!see(place, &status))
        return failed(ENOENT);
    bool is_folder = S_ISDIR(status.st_mode);
    if (is_folder != is_to_be_folder)
        return failed(is_folder ? EISDIR : ENOTDIR);
    if (is_folder && !is_empty_outside(place))
        return failed(ENOTEMPTY);
    if (!prepare_parent(place) || !whiten(place))
        return -1;
    return is_in_upper(place) ? (is_folder ? rmdir(place->upper) : unlink(place->upper)) : 0;
}

int unlink(const char *path)
{
    REAL(unlink);
    struct place place;
    return is_ours(AT_FDCWD, path, CALLER, &place) ? remove_place(&place, false) : real(path);
}

int rmdir(const char *path)
{
    REAL(rmdir);
    struct place place;
    return is_ours(AT_FDCWD, path, CALLER, &place) ? remove_place(&place, true) : real(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    REAL(unlinkat);
    struct place place;
    return is_ours(folder, path, CALLER, &place) ? remove_place(&place, flags & AT_REMOVEDIR)
                                                 : real(folder, path, flags);
}

int remove(const char *path)
{
    REAL(remove);
    struct place place;
    struct stat status;
    if (!is_ours(AT_FDCWD, path, CALLER, &place))
        return real(path);
    return remove_place(&place, see(&place, &status) && S_ISDIR(status.st_mode));
}

static int make_folder(const struct place *place, mode_t mode)
{
    struct stat status;
    if (see(place, &status))
        return failed(EEXIST);
    return prepare_parent(place) ? mkdir(place->upper, mode) : -1;
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    struct place place;
    return is_ours(AT_FDCWD, path, CALLER, &place) ? make_folder(&place, mode) : real(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    REAL(mkdirat);
    struct place place;
    return is_ours(folder, path, CALLER, &place) ? make_folder(&place, mode) : real(folder, path, mode);
}

/* Two names of the program. A folder that is outside cannot be moved, as with overlayfs: programs copy it then. */
static int move(const struct place *from, const struct place *to, unsigned flags)
{
    struct stat old, new;
    if (!see(from, &old))
        return failed(ENOENT);
    bool is_new = !see(to, &new), is_folder = S_ISDIR(old.st_mode);
    if ((is_folder || !can_be_copied(&old)) && is_outside(from, NULL))
        return failed(EXDEV);
    if (!is_new && flags & RENAME_NOREPLACE)
        return failed(EEXIST);
    if (flags & ~(unsigned)RENAME_NOREPLACE)
        return failed(EINVAL);
    if (!is_new && is_folder != S_ISDIR(new.st_mode))
        return failed(is_folder ? ENOTDIR : EISDIR);
    if (!is_new && is_folder && !is_empty_outside(to))
        return failed(ENOTEMPTY);
    bool is_ready = prepare_parent(from) && prepare_parent(to) && copy_up(from) && whiten(from);
    return is_ready ? rename(from->upper, to->upper) : -1;
}

/* Whether both names are the team's; one that is not cannot be moved to one that is. */
static bool are_ours(int old_folder, const char *old, int new_folder, const char *new, const void *caller,
                     struct place *from, struct place *to)
{
    return is_ours(old_folder, old, caller, from) && is_ours(new_folder, new, caller, to);
}

int rename(const char *old, const char *new)
{
    REAL(rename);
    struct place from, to;
    return are_ours(AT_FDCWD, old, AT_FDCWD, new, CALLER, &from, &to) ? move(&from, &to, 0) : real(old, new);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new)
{
    REAL(renameat);
    struct place from, to;
    return are_ours(old_folder, old, new_folder, new, CALLER, &from, &to) ? move(&from, &to, 0)
                                                                          : real(old_folder, old, new_folder, new);
}

int renameat2(int old_folder, const char *old, int new_folder, const char *new, unsigned flags)
{
    REAL(renameat2);
    struct place from, to;
    return are_ours(old_folder, old, new_folder, new, CALLER, &from, &to)
               ? move(&from, &to, flags)
               : real(old_folder, old, new_folder, new, flags);
}

static int link_places(const struct place *from, const struct place *to)
{
    struct stat status;
    if (!see(from, &status))
        return failed(ENOENT);
    if (!can_be_copied(&status))
        return failed(EXDEV);
    if (see(to, &status))
        return failed(EEXIST);
    return prepare_parent(to) && copy_up(from) ? link(from->upper, to->upper) : -1;
}

int link(const char *old, const char *new)
{
    REAL(link);
    struct place from, to;
    return are_ours(AT_FDCWD, old, AT_FDCWD, new, CALLER, &from, &to) ? link_places(&from, &to) : real(old, new);
}

int linkat(int old_folder, const char *old, int new_folder, const char *new, int flags)
{
    REAL(linkat);
    struct place from, to;
    return are_ours(old_folder, old, new_folder, new, CALLER, &from, &to)
               ? link_places(&from, &to)
               : real(old_folder, old, new_folder, new, flags);
}

static int make_link(const char *target, const struct place *place)
{
    struct stat status;
    if (see(place, &status))
        return failed(EEXIST);
    return prepare_parent(place) ? symlink(target, place->upper) : -1;
}

int symlink(const char *target, const char *path)
{
    REAL(symlink);
    struct place place;
    return is_ours(AT_FDCWD, path, CALLER, &place) ? make_link(target, &place) : real(target, path);
}

int symlinkat(const char *target, int folder, const char *path)
{
    REAL(symlinkat);
    struct place place;
    return is_ours(folder, path, CALLER, &place) ? make_link(target, &place) : real(target, folder, path);
}
