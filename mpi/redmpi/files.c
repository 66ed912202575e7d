/* See files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

static bool exists(const char *path, struct stat *status)
{
    struct stat unused;
    int before = errno;
    bool is = !lstat(path, status ? status : &unused);
    errno = before;
    return is;
}

/* The others follow from the real one. */
static bool set_places(struct place *place)
{
    const char *name = strrchr(place->real, '/') + 1;
    int above = (int)(name - place->real);
    return join(place->upper, files.upper, place->real) &&
           snprintf(place->whiteout, PATH_MAX, "%s%.*s.wh.%s", files.whiteouts, above, place->real, name) < PATH_MAX;
}

static bool is_left_alone(const char *path)
{
    static const char *const left_alone[] = { "/dev", "/proc", "/sys" };
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++) {
        if (is_within(path, left_alone[i]))
            return true;
    }
    return is_within(path, files.job);
}

/* Where the link leads that the team sees at a place; -1 if it sees none. */
static ssize_t read_link(const struct place *place, char target[PATH_MAX])
{
    ssize_t length = readlink(place->upper, target, PATH_MAX - 1);
    bool is_own = length >= 0 || errno == EINVAL;
    if (!is_own && !place->is_hidden && !exists(place->whiteout, NULL))
        length = readlink(place->real, target, PATH_MAX - 1);
    if (length >= 0)
        target[length] = 0;
    return length;
}

static void step_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

/* What is still to be walked, after a link: its target, and the rest behind it. */
static bool follow(const char *target, char *rest, char *real)
{
    char whole[PATH_MAX];
    const char *shown = path_outside(target);
    if (snprintf(whole, sizeof whole, "%s/%s", shown, rest) >= (int)sizeof whole)
        return false;
    strcpy(rest, whole);
    if (*shown == '/')
        *real = 0;
    else
        step_up(real);
    return true;
}

/* Walks along an absolute path as the kernel does, but through what the team sees. */
static bool walk(char *rest, enum last_link last, struct place *place)
{
    char target[PATH_MAX];
    int links = 0;
    *place->real = 0;
    place->is_hidden = false;
    for (;;) {
        char *name = rest + strspn(rest, "/");
        size_t length = strcspn(name, "/");
        if (!length)
            break;
        char *behind = name + length;
        bool is_last = !behind[strspn(behind, "/")], is_dot = length == 1 && *name == '.';
        if (length == 2 && !strncmp(name, "..", 2)) {
            step_up(place->real);
            if (*place->real && !set_places(place))
                return false;
        } else if (!is_dot) {
            size_t end = strlen(place->real);
            if (end && exists(place->whiteout, NULL))
                place->is_hidden = true;
            if (end + length + 2 > PATH_MAX)
                return false;
            sprintf(place->real + end, "/%.*s", (int)length, name);
            if (is_left_alone(place->real) || !set_places(place))
                return false;
        }
        memmove(rest, behind, strlen(behind) + 1);
        if (is_dot || (is_last && last == DO_NOT_FOLLOW) || !*place->real || read_link(place, target) < 0)
            continue;
        if (++links > MOST_LINKS || !follow(target, rest, place->real))
            return false;
        if (*place->real && !set_places(place))
            return false;
    }
    if (!*place->real)
        strcpy(place->real, "/");
    return set_places(place);
}

bool find_place(int folder, const char *path, enum last_link last, struct place *place)
{
    char whole[PATH_MAX];
    int before = errno;
    bool is_found = files.rank >= 0 && path && *path && absolute(folder, path, whole) && walk(whole, last, place);
    errno = before;
    return is_found;
}

bool find_for_program(int folder, const char *path, enum last_link last, const void *caller, struct place *place)
{
    return files.rank >= 0 && !comes_from_mpi(caller) && find_place(folder, path, last, place);
}

bool place_in(const struct place *folder, const char *name, struct place *place)
{
    place->is_hidden = folder->is_hidden || exists(folder->whiteout, NULL);
    return snprintf(place->real, PATH_MAX, "%s/%s", folder->real, name) < PATH_MAX && set_places(place);
}

static bool place_above(const struct place *place, struct place *above)
{
    strcpy(above->real, place->real);
    char *slash = strrchr(above->real, '/');
    slash[slash == above->real] = 0;
    above->is_hidden = place->is_hidden;
    return set_places(above);
}

bool is_in_upper(const struct place *place)
{
    return exists(place->upper, NULL);
}

bool is_outside(const struct place *place, struct stat *status)
{
    return !place->is_hidden && exists(place->real, status) && !exists(place->whiteout, NULL);
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

bool whiten(const struct place *place)
{
    if (!exists(place->real, NULL))
        return true;
    make_folders(place->whiteout);
    int file = open(place->whiteout, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
    return file >= 0;
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

/* Gives a file its name, unless another one has it already. Not all file systems have links. */
static bool give_name(const char *part, const char *name)
{
    if (!link(part, name) || errno == EEXIST)
        return true;
    return !renameat2(AT_FDCWD, part, AT_FDCWD, name, RENAME_NOREPLACE) || errno == EEXIST;
}

/* A new file in the job's folder, complete before it gets its name: others of the team may read it, too. */
static bool copy_file(const struct place *place, const struct stat *status, bool with_content)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s/part.XXXXXX", files.job);
    int from = open(place->real, O_RDONLY | O_CLOEXEC), to = mkostemp(part, O_CLOEXEC);
    bool is_well = to >= 0 && (!with_content || (from >= 0 && copy_content(from, to))) &&
                   !fchmod(to, status->st_mode & 07777) && give_name(part, place->upper);
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

/* One process of the team copies a file, and others that want it, too, wait. */
static int lock_for(const struct place *place)
{
    char path[PATH_MAX];
    unsigned hash = 0;
    for (const char *next = place->upper; *next; next++)
        hash = hash * 31 + (unsigned char)*next;
    snprintf(path, sizeof path, "%s/copying.%d.%u", files.job, files.team, hash % 64);
    int lock = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR)
        ;
    return lock;
}

static bool copy_locked(const struct place *place, bool with_content)
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

static bool copy_up_with(const struct place *place, bool with_content)
{
    if (is_in_upper(place))
        return true;
    int lock = lock_for(place);
    bool is_copied = copy_locked(place, with_content);
    int why = errno;
    if (lock >= 0)
        close(lock);
    errno = why;
    return is_copied;
}

bool can_be_copied(const struct stat *status)
{
    return S_ISREG(status->st_mode) || S_ISLNK(status->st_mode) || S_ISDIR(status->st_mode);
}

bool copy_up(const struct place *place)
{
    return copy_up_with(place, true);
}

bool copy_up_empty(const struct place *place)
{
    return copy_up_with(place, false);
}

/* Whether the team has written or removed anything so far. */
static bool has_changes(void)
{
    return exists(files.upper, NULL) || exists(files.whiteouts, NULL);
}

const char *path_to_read(int folder, const char *path, enum last_link last, const void *caller, struct place *place)
{
    struct stat upper, real;
    /* The caller first: what is asked behind it calls the functions that this one serves. */
    if (files.rank < 0 || comes_from_mpi(caller) || !has_changes() || !find_place(folder, path, last, place))
        return path;
    if (!exists(place->upper, &upper))
        return place->is_hidden || exists(place->whiteout, NULL) ? place->upper : place->real;
    /* Of a folder that is in both, what is outside is the larger part. */
    bool is_both = S_ISDIR(upper.st_mode) && is_outside(place, &real) && S_ISDIR(real.st_mode);
    return is_both ? place->real : place->upper;
}

const char *path_to_write(int folder, const char *path, enum last_link last, int flags, const void *caller,
                          struct place *place)
{
    struct stat status;
    if (!find_for_program(folder, path, last, caller, place))
        return path;
    if (is_in_upper(place))
        return place->upper;
    if (!is_outside(place, &status))
        return !(flags & O_CREAT) || prepare_parent(place) || errno == ENOENT ? place->upper : place->real;
    bool is_exclusive = flags & O_CREAT && flags & O_EXCL;
    bool may_be = flags == CHANGE_STATUS ? can_be_copied(&status)
                                         : S_ISREG(status.st_mode) && !is_exclusive && !access(place->real, W_OK);
    if (!may_be)
        return place->real;
    bool is_to_be_empty = flags != CHANGE_STATUS && flags & O_TRUNC;
    if (!(is_to_be_empty ? copy_up_empty(place) : copy_up(place)))
        snprintf(place->upper, PATH_MAX, "%s/not-copied/file", files.job); /* where nothing can be, and no new file */
    return place->upper;
}
