/* The files of a team.
 *
 * Problem: all replicas of a program write the same files, at the same places, and one of them may write them wrong.
 * Idea: what a team writes goes to a folder of its own, and is what the team reads from then on; `rampart mpirun` puts
 * what most teams have written in place when the job ends. Why this way: until then, the files that others see are what
 * they were, so all teams find the same, however far each of them is; and no replica is slowed down by another one.
 * [Fiala15, 2.4, sphere of replication; 3.3.2.2.1]
 *
 * This is the overlay of Linux (overlayfs) in a process: a file that is opened for writing is copied up to the team's
 * *upper* folder first, and one that is removed leaves a *whiteout*, a file of its name after `.wh.`, in another
 * folder. Paths in both are those of the file, from the root on. Why not overlayfs itself: mounting needs privileges or
 * user namespaces, which clusters forbid, and several nodes cannot share an upper folder.
 *
 * Only regular files, folders and links are treated so. Devices, pipes, and all of /dev, /proc and /sys are as they
 * are. So is what the MPI itself opens. */
#ifndef RAMPART_FILES_H
#define RAMPART_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* From now on; `folder` is that of the job. Of this process, and of the programs that it starts. */
void begin_files(const char *folder, int team, int rank);

/* The rank and the team of this process; -1 if files are as they are. */
int files_rank(void);
int files_team(void);

/* The places where a file can be. */
struct place {
    char real[PATH_MAX];
    char upper[PATH_MAX];
    char whiteout[PATH_MAX];
    bool is_hidden; /* a folder or link on the way was removed, so what is there outside is not seen */
};

enum last_link { FOLLOW, DO_NOT_FOLLOW };

/* Finds them for a path that the program names, relative to an open folder or AT_FDCWD. False if the path is to be used
 * as it is. */
bool find_place(int folder, const char *path, enum last_link last, struct place *place);

/* The same for a call that comes from there; false, too, if it is one of the MPI. */
bool find_for_program(int folder, const char *path, enum last_link last, const void *caller, struct place *place);

/* Whether the team sees something there. */
bool is_there(const struct place *place);

bool is_in_upper(const struct place *place);

/* Whether it sees what is there outside of its own folders; `status` may be null. */
bool is_outside(const struct place *place, struct stat *status);

/* The place of a name in a folder; false if it is too long. */
bool place_in(const struct place *folder, const char *name, struct place *place);

/* Whether it is a file, a folder or a link. */
bool can_be_copied(const struct stat *status);

/* Brings one into the upper folder, if it is not there; false, with errno, if it cannot be. */
bool copy_up(const struct place *place);

/* The same without the content, of a file that is about to be truncated. */
bool copy_up_empty(const struct place *place);

/* Makes the folders above it in the upper folder; false if the team sees no folder there that it may write to. */
bool prepare_parent(const struct place *place);

/* Whatever is there outside, the team does not see it any more; false, with errno, if that cannot be. Before it is
 * removed from the upper folder: what was outside must not be seen in between. */
bool whiten(const struct place *place);

/* Instead of the flags of open(): only permissions, times and owners of a file change. */
#define CHANGE_STATUS (-1)

/* The paths that a function of the C library gets instead of the program's; in `place`, or the program's own. */
const char *path_to_read(int folder, const char *path, enum last_link last, const void *caller, struct place *place);
const char *path_to_write(int folder, const char *path, enum last_link last, int flags, const void *caller,
                          struct place *place);

/* A path without what a team's folder adds to it. */
const char *path_outside(const char *path);

#endif
