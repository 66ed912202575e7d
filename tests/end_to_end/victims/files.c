/* A program whose ranks write files, in the folder "made" of the current one. It checks what it sees of them, and
 * prints "right". With "wrong", replica 1 of rank 2 writes a wrong byte into made/rank.2; with "cut", the job ends in
 * the middle, and replica 0 has written more into made/log than the others. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks;

#define CHECK(what)                                                                 \
    do {                                                                            \
        if (!(what)) {                                                              \
            printf("rank %d line %d: %s (%d)\n", rank, __LINE__, #what, errno);     \
            fflush(stdout);                                                         \
            MPI_Abort(MPI_COMM_WORLD, 9);                                           \
        }                                                                           \
    } while (0)

/* Programs cannot know which replica they are; the test leaves it in the name of what they print to. */
static int replica(void)
{
    char target[4096];
    ssize_t length = readlink("/proc/self/fd/1", target, sizeof target - 1);
    target[length < 0 ? 0 : length] = 0;
    const char *point = strrchr(target, '.');
    return point ? atoi(point + 1) / ranks : 0;
}

static const char *content(const char *path)
{
    static char text[65536];
    FILE *file = fopen(path, "r");
    if (!file)
        return "nothing";
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static void write_text(const char *path, const char *how, const char *text)
{
    FILE *file = fopen(path, how);
    CHECK(file);
    CHECK(fputs(text, file) >= 0);
    CHECK(!fclose(file));
}

/* One rank alone: what a file is after each change. */
static void change(void)
{
    struct stat status;
    char name[64] = "made/tmp.XXXXXX", where[4096], target[64];
    CHECK(!strcmp(content("made/before"), "as it was\n"));
    write_text("made/before", "a", "and more\n");
    CHECK(!strcmp(content("made/before"), "as it was\nand more\n"));
    CHECK(!stat("made/before", &status) && status.st_size == 19 && (status.st_mode & 0777) == 0640);
    CHECK(!unlink("made/old") && access("made/old", F_OK) && errno == ENOENT);
    CHECK(unlink("made/old") && errno == ENOENT && open("made/old", O_RDONLY) < 0);
    CHECK(!mkdir("made/new", 0755) && mkdir("made/new", 0755) && errno == EEXIST);
    write_text("made/new/part", "w", "complete");
    CHECK(!rename("made/new/part", "made/new/state") && !strcmp(content("made/new/state"), "complete"));
    CHECK(access("made/new/part", F_OK) && !strcmp(content("made/new/part"), "nothing"));
    CHECK(!rename("made/moved", "made/new/moved") && !strcmp(content("made/new/moved"), "moved\n"));
    CHECK(access("made/moved", F_OK));
    write_text("made/moved", "wx", "again\n");
    CHECK(open("made/moved", O_WRONLY | O_CREAT | O_EXCL, 0600) < 0 && errno == EEXIST);
    CHECK(!symlink("new/state", "made/link") && !strcmp(content("made/link"), "complete"));
    CHECK(readlink("made/link", target, sizeof target) == 9 && !lstat("made/link", &status) && S_ISLNK(status.st_mode));
    CHECK(!symlink("new", "made/way") && !strcmp(content("made/way/state"), "complete"));
    CHECK(rmdir("made/new") && errno == ENOTEMPTY && unlink("made/new") && rmdir("made/gone") && errno == ENOTEMPTY);
    CHECK(!unlink("made/gone/only") && !rmdir("made/gone") && opendir("made/gone") == NULL);
    CHECK(fopen("made/gone/x", "w") == NULL && errno == ENOENT && fopen("made/none/x", "w") == NULL);
    CHECK(!chdir("made/new") && getcwd(where, sizeof where) && strstr(where, "made/new") && !strstr(where, ".rampart"));
    CHECK(!strcmp(content("../before"), "as it was\nand more\n") && !strcmp(content("state"), "complete"));
    CHECK(!strcmp(content("../untouched"), "untouched\n") && !chdir("../.."));
    int file = mkstemp(name);
    CHECK(file >= 0 && write(file, name, strlen(name)) > 0 && !close(file) && !strcmp(content(name), name));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_SELF);
    CHECK(!unlink(name));
    CHECK(!truncate("made/short", 4) && !strcmp(content("made/short"), "shor"));
    CHECK(!link("made/short", "made/twin") && !chmod("made/twin", 0600));
    CHECK(!system("cat made/new/state > made/by-child && rm made/twin && test ! -e made/old"));
    CHECK(!strcmp(content("made/by-child"), "complete") && access("made/twin", F_OK));
    CHECK(!access("made/new/state", R_OK) && realpath("made/link", where) && strstr(where, "/made/new/state"));
}

/* Links that were there before: "now" leads to the folder "first", "settings" to a file, "later" to none yet. */
static void follow_links(void)
{
    struct stat status;
    char where[4096];
    CHECK(!strcmp(content("made/now/x"), "first\n") && !strcmp(content("made/settings"), "default\n"));
    write_text("made/later", "w", "through a link\n");
    CHECK(!strcmp(content("made/target"), "through a link\n") && !lstat("made/later", &status) && S_ISLNK(status.st_mode));
    CHECK(!symlink("second", "made/next") && !rename("made/next", "made/now"));
    CHECK(!strcmp(content("made/now/x"), "second\n") && !strcmp(content("made/first/x"), "first\n"));
    write_text("made/new-settings", "w", "mine\n");
    CHECK(!rename("made/new-settings", "made/settings") && !strcmp(content("made/settings"), "mine\n"));
    CHECK(!strcmp(content("made/default"), "default\n"));
    CHECK(!unlink("made/gone-link") && access("made/gone-link", F_OK) && access("made/gone-link/x", F_OK));
    CHECK(!strcmp(content("made/new/../untouched"), "untouched\n"));
    CHECK(!mkdir("made/gone", 0755) && !strcmp(content("made/gone/only"), "nothing"));
    CHECK(!strcmp(content("made/gone/../untouched"), "untouched\n") && !rmdir("made/gone"));
    CHECK(!symlink("untouched", "made/alias") && !strcmp(content("made/alias"), "untouched\n"));
    CHECK(!chdir("made/new") && realpath("../untouched", where) && strstr(where, "made/untouched") && !chdir("../.."));
    CHECK(!chmod("made/readable", 0644) && !stat("made/readable", &status) && (status.st_mode & 0777) == 0644);
}

/* All ranks write one file, each its part, and one after the other appends to another. */
static void share(void)
{
    char line[64];
    int file = open("made/shared", O_WRONLY | O_CREAT, 0644);
    CHECK(file >= 0);
    snprintf(line, sizeof line, "part of rank %d\n", rank);
    CHECK(pwrite(file, line, strlen(line), rank * (int)strlen(line)) == (ssize_t)strlen(line) && !close(file));
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == rank)
            write_text("made/turns", "a", line);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(strlen(content("made/turns")) == ranks * strlen(line) && strlen(content("made/shared")) == ranks * strlen(line));
}

/* By MPI: each rank writes every fourth pair of letters of a file, reads it all again, and one is deleted. */
static void by_mpi(void)
{
    char own[4], all[16], first[4] = "";
    MPI_File file;
    MPI_Datatype pair, pairs;
    MPI_Request request;
    for (int i = 0; i < 4; i++)
        own[i] = 'a' + rank + 4 * (i / 2);
    MPI_Type_contiguous(2, MPI_CHAR, &pair);
    MPI_Type_create_resized(pair, 0, 2 * ranks, &pairs);
    MPI_Type_commit(&pairs);
    CHECK(!MPI_File_open(MPI_COMM_WORLD, "made/collective", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_set_view(file, 2 * rank, MPI_CHAR, pairs, "native", MPI_INFO_NULL));
    CHECK(!MPI_File_write_all(file, own, 4, MPI_CHAR, MPI_STATUS_IGNORE) && !MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(!MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
    CHECK(!MPI_File_iread_at(file, 0, all, 16, MPI_CHAR, &request) && !MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(!memcmp(all, "aabbccddeeffgghh", 16) && !MPI_File_close(&file));
    CHECK(!MPI_File_open(MPI_COMM_WORLD, "made/untouched", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    CHECK(!MPI_File_read_at_all(file, 2, first, 3, MPI_CHAR, MPI_STATUS_IGNORE) && !strcmp(first, "tou"));
    CHECK(!MPI_File_close(&file) && MPI_File_open(MPI_COMM_SELF, "made/none", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    if (rank == 1) {
        CHECK(!MPI_File_delete("made/deleted", MPI_INFO_NULL) && access("made/deleted", F_OK));
        CHECK(MPI_File_delete("made/deleted", MPI_INFO_NULL) != MPI_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    char path[64], text[4000];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0) {
        change();
        follow_links();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(!strcmp(content("made/new/state"), "complete") && !strcmp(content("made/old"), "nothing"));
    share();
    by_mpi();
    memset(text, 'a' + rank, sizeof text - 1);
    text[sizeof text - 1] = 0;
    if (rank == 2 && replica() == 1 && !strcmp(how, "wrong"))
        text[1234] ^= 1;
    snprintf(path, sizeof path, "made/rank.%d", rank);
    write_text(path, "w", text);
    if (!strcmp(how, "cut") && rank == 0) {
        write_text("made/log", "w", replica() == 0 ? "one\ntwo\n" : "one\n");
        sleep(1);
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("right\n");
    MPI_Finalize();
    write_text(path, "a", "the end\n");
    return 0;
}
