/* See files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "callers.h"

static struct {
    char job[PATH_MAX - 64], upper[PATH_MAX - 32], whiteouts[PATH_MAX - 32];
    int rank, team;
} files = { .rank = -1, .team = -1 };

/* Links that lead to links. */
#define MOST_LINKS 40

void begin_files(const char *folder, int team, int rank)
{
    char numbers[2][16];
    if (strlen(folder) >= sizeof files.job)
        return;
    strcpy(files.job, folder);
    snprintf(files.upper, sizeof files.upper, "%s/upper.%d", folder, team);
    snprintf(files.whiteouts, sizeof files.whiteouts, "%s/whiteouts.%d", folder, team);
    snprintf(numbers[0], sizeof numbers[0], "%d", team);
    snprintf(numbers[1], sizeof numbers[1], "%d", rank);
    setenv("RAMPART_TEAM", numbers[0], 1);
    setenv("RAMPART_RANK", numbers[1], 1);
    files.rank = rank;
    files.team = team;
}

int files_rank(void)
{
    return files.rank;
}

int files_team(void)
{
    return files.team;
}

/* Whether a path is a folder or lies in it. */
static bool is_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

const char *path_outside(const char *path)
{
    if (files.rank < 0 || !is_within(path, files.upper))
        return path;
    const char *rest = path + strlen(files.upper);
    return *rest ? rest : "/";
}

static bool join(char *out, const char *folder, const char *path)
{
    return snprintf(out, PATH_MAX, "%s%s%s", folder, *path == '/' ? "" : "/", path) < PATH_MAX;
}

/* The absolute path, with dots and links in it. */
static bool absolute(int folder, const char *path, char *out)
{
    char start[PATH_MAX], link[64];
    if (*path == '/')
        return snprintf(out, PATH_MAX, "%s", path_outside(path)) < PATH_MAX;
    if (folder == AT_FDCWD) {
        if (!getcwd(start, sizeof start))
            return false;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, start, sizeof start - 1);
        if (length <= 0)
            return false;
        start[length] = 0;
    }
    return *start == '/' && join(out, path_outside(start), path);
}

/* Takes dots out of an absolute path, as if it had no links. */
static void tidy(char *path)
{
    char *end = path;
    for (const char *next = path; *next;) {
        size_t length = strcspn(next + 1, "/");
        if (length == 2 && !strncmp(next + 1, "..", 2)) {
            while (end > path && *--end != '/')
                ;
        } else if (length && !(length == 1 && next[1] == '.')) {
            memmove(end, next, length + 1);
            end += length + 1;
        }
        next += length + 1;
    }
    if (end == path)
        *end++ = '/';
    *end = 0;
}

/* Takes links out of it, as far as it exists outside of the team's folders. The rest can only have the team's. */
static bool resolve(char *path, enum last_link last)
{
    char head[PATH_MAX], found[PATH_MAX], out[PATH_MAX];
    if (last == FOLLOW && realpath(path, found)) {
        strcpy(path, found);
        return true;
    }
    strcpy(head, path);
    for (char *slash = strrchr(head, '/'); slash; slash = strrchr(head, '/')) {
        *slash = 0;
        const char *rest = path + (slash - head);
        if (slash == head || realpath(head, found)) {
            bool fits = join(out, slash == head || !strcmp(found, "/") ? "" : found, rest);
            strcpy(path, out);
            tidy(path);
            return fits;
        }
    }
    return false;
}

/* The others follow from the real one. */
static bool set_places(struct place *place)
{
    const char *name = strrchr(place->real, '/') + 1;
    int above = (int)(name - place->real);
    return join(place->upper, files.upper, place->real) &&
           snprintf(place->whiteout, PATH_MAX, "%s%.*s.wh.%s", files.whiteouts, above, place->real, name) < PATH_MAX;
}

static bool fill_place(char *path, enum last_link last, struct place *place)
{
    static const char *const left_alone[] = { "/dev", "/proc", "/sys" };
    if (!resolve(path, last))
        return false;
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++) {
        if (is_within(path, left_alone[i]))
            return false;
    }
    strcpy(place->real, path);
    return !is_within(path, files.job) && set_places(place);
}

bool place_in(const struct place *folder, const char *name, struct place *place)
{
    return snprintf(place->real, PATH_MAX, "%s/%s", folder->real, name) < PATH_MAX && set_places(place);
}

static bool place_above(const struct place *place, struct place *above)
{
    strcpy(above->real, place->real);
    char *slash = strrchr(above->real, '/');
    slash[slash == above->real] = 0;
    return set_places(above);
}

/* The path that the first link of the team on the way leads to; false if there is none. */
static bool follow_link(const struct place *place, enum last_link last, char *whole)
{
    char part[PATH_MAX], target[PATH_MAX], above[PATH_MAX];
    size_t prefix = strlen(files.upper);
    strcpy(part, place->upper);
    for (char *end = part + prefix; *end;) {
        end += 1 + strcspn(end + 1, "/");
        char rest = *end;
        if (!rest && last == DO_NOT_FOLLOW)
            return false;
        *end = 0;
        ssize_t length = readlink(part, target, sizeof target - 1);
        *end = rest;
        if (length < 0)
            continue;
        target[length] = 0;
        size_t name = (size_t)(end - part) - prefix;
        strcpy(above, place->real);
        above[name] = 0;
        *strrchr(above, '/') = 0;
        return join(part, *target == '/' ? "" : above, target) &&
               snprintf(whole, PATH_MAX, "%s%s", part, place->real + name) < PATH_MAX;
    }
    return false;
}

bool find_place(int folder, const char *path, enum last_link last, struct place *place)
{
    char whole[PATH_MAX];
    if (files.rank < 0 || !path || !*path || !absolute(folder, path, whole))
        return false;
    for (int links = 0; links < MOST_LINKS; links++) {
        if (!fill_place(whole, last, place))
            return false;
        if (access(files.upper, F_OK) || !follow_link(place, last, whole))
            return true;
    }
    return false;
}

static bool exists(const char *path, struct stat *status)
{
    struct stat unused;
    int before = errno;
    bool is = !lstat(path, status ? status : &unused);
    errno = before;
    return is;
}

bool is_in_upper(const struct place *place)
{
    return exists(place->upper, NULL);
}

bool is_outside(const struct place *place, struct stat *status)
{
    return exists(place->real, status) && !exists(place->whiteout, NULL);
}

bool is_there(const struct place *place)
{
    return is_in_upper(place) || is_outside(place, NULL);
}

/* Makes the folders above a path below a folder of the job. */
static void make_folders(const char *path)
{
    char part[PATH_MAX];
    int before = errno;
    strcpy(part, path);
    for (char *slash = strchr(part + strlen(files.job) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0777);
        *slash = '/';
    }
    errno = before;
}

bool prepare_parent(const struct place *place)
{
    struct place above;
    if (!place_above(place, &above))
        return false;
    if (!is_in_upper(&above)) {
        if (!is_outside(&above, NULL)) {
            errno = ENOENT;
            return false;
        }
        if (access(above.real, W_OK | X_OK))
            return false;
    }
    make_folders(place->upper);
    return true;
}

void whiten(const struct place *place)
{
    if (!exists(place->real, NULL))
        return;
    make_folders(place->whiteout);
    int file = open(place->whiteout, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
}

static bool copy_content(int from, int to)
{
    if (!ioctl(to, FICLONE, from))
        return true;
    for (;;) {
        ssize_t copied = copy_file_range(from, NULL, to, NULL, 1 << 30, 0);
        if (!copied)
            return true;
        if (copied < 0)
            break;
    }
    static const size_t room = 1 << 20;
    char *piece = malloc(room);
    ssize_t length = piece ? 1 : -1;
    while (piece && (length = read(from, piece, room)) > 0) {
        for (ssize_t done = 0, now; done < length; done += now) {
            now = write(to, piece + done, (size_t)(length - done));
            if (now < 0) {
                free(piece);
                return false;
            }
        }
    }
    free(piece);
    return !length;
}

/* A new file in the job's folder, complete before it gets its name: others of the team may want it, too. */
static bool copy_file(const struct place *place, const struct stat *status, bool with_content)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s/part.XXXXXX", files.job);
    int from = open(place->real, O_RDONLY | O_CLOEXEC), to = mkostemp(part, O_CLOEXEC);
    bool is_well = to >= 0 && (!with_content || (from >= 0 && copy_content(from, to))) &&
                   !fchmod(to, status->st_mode & 07777) && (!link(part, place->upper) || errno == EEXIST);
    int why = errno;
    if (from >= 0)
        close(from);
    if (to >= 0) {
        close(to);
        unlink(part);
    }
    errno = why;
    return is_well;
}

static bool copy_link(const struct place *place)
{
    char target[PATH_MAX];
    ssize_t length = readlink(place->real, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = 0;
    return !symlink(target, place->upper) || errno == EEXIST;
}

static bool copy_up_with(const struct place *place, bool with_content)
{
    struct stat status;
    if (is_in_upper(place))
        return true;
    if (!is_outside(place, &status)) {
        errno = ENOENT;
        return false;
    }
    make_folders(place->upper);
    if (S_ISLNK(status.st_mode))
        return copy_link(place);
    if (S_ISDIR(status.st_mode))
        return !mkdir(place->upper, status.st_mode & 07777) || errno == EEXIST;
    return copy_file(place, &status, with_content);
}

bool copy_up(const struct place *place)
{
    return copy_up_with(place, true);
}

bool copy_up_empty(const struct place *place)
{
    return copy_up_with(place, false);
}

/* What is outside, under the program's own name for it, unless that leads to the upper folder. */
static const char *as_it_is(const char *path, const struct place *place)
{
    char where[PATH_MAX];
    int before = errno;
    bool leads_there = *path == '/' ? is_within(path, files.upper)
                                    : getcwd(where, sizeof where) && is_within(where, files.upper);
    errno = before;
    return leads_there ? place->real : path;
}

/* Whether the team has written or removed anything so far. */
static bool has_changes(void)
{
    return exists(files.upper, NULL) || exists(files.whiteouts, NULL);
}

const char *path_to_read(int folder, const char *path, enum last_link last, const void *caller, struct place *place)
{
    struct stat upper, real;
    if (files.rank < 0 || comes_from_mpi(caller) || !has_changes() || !find_place(folder, path, last, place))
        return path;
    if (!exists(place->upper, &upper))
        return exists(place->whiteout, NULL) ? place->upper : as_it_is(path, place);
    /* Of a folder that is in both, what is outside is the larger part. */
    bool is_both = S_ISDIR(upper.st_mode) && is_outside(place, &real) && S_ISDIR(real.st_mode);
    return is_both ? as_it_is(path, place) : place->upper;
}

const char *path_to_write(int folder, const char *path, enum last_link last, int flags, const void *caller,
                          struct place *place)
{
    struct stat status;
    if (files.rank < 0 || comes_from_mpi(caller) || !find_place(folder, path, last, place))
        return path;
    if (is_in_upper(place))
        return place->upper;
    if (!is_outside(place, &status))
        return !(flags & O_CREAT) || prepare_parent(place) || errno == ENOENT ? place->upper : as_it_is(path, place);
    bool is_exclusive = flags & O_CREAT && flags & O_EXCL;
    if (!S_ISREG(status.st_mode) || is_exclusive || access(place->real, W_OK))
        return as_it_is(path, place);
    /* If it cannot be copied, the program is told that it is not there. */
    flags &O_TRUNC ? copy_up_empty(place) : copy_up(place);
    return place->upper;
}
