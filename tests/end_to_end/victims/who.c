/* Who a process is, and what it draws from the kernel's random numbers, before and after MPI_Init, in messages round a
 * ring. Prints its process id and the name of its node, and what fails. */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct {
    int32_t pids[8];
    char nodes[2][80];
    unsigned char drawn[10][16];
} mine, other;

static volatile sig_atomic_t signals;

static void expect(int is_so, const char *what)
{
    if (!is_so)
        printf("%s fails\n", what);
}

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void who(void)
{
    struct utsname name;
    mine.pids[0] = getpid();
    mine.pids[1] = getppid();
    mine.pids[2] = gettid();
    mine.pids[3] = getpgid(getpid()) == getpid() ? getpgrp() : 0;
    mine.pids[4] = (int32_t)syscall(SYS_getpid);
    mine.pids[5] = (int32_t)syscall(SYS_gettid);
    expect(mine.pids[0] == mine.pids[2] && mine.pids[0] == mine.pids[4] && mine.pids[0] == mine.pids[5], "one number");
    gethostname(mine.nodes[0], sizeof mine.nodes[0]);
    uname(&name);
    strcpy(mine.nodes[1], name.nodename);
    expect(!strcmp(mine.nodes[0], mine.nodes[1]), "one name");
}

static void draw(void)
{
    const char *const devices[] = { "/dev/urandom", "/dev/random" };
    for (int i = 0; i < 2; i++) {
        int file = open(devices[i], O_RDONLY);
        FILE *stream = fopen(devices[i], "r");
        expect(read(file, mine.drawn[i], 16) == 16 && fread(mine.drawn[2 + i], 1, 16, stream) == 16, devices[i]);
        fclose(stream);
        close(file);
    }
    expect(getentropy(mine.drawn[4], 16) == 0, "getentropy");
    expect(getrandom(mine.drawn[5], 16, 0) == 16, "getrandom");
    expect(syscall(SYS_getrandom, mine.drawn[6], 16, 0) == 16, "getrandom of the kernel");
    memcpy(mine.drawn[7], (void *)getauxval(AT_RANDOM), 16);
    arc4random_buf(mine.drawn[8], 12);
    uint32_t number = arc4random_uniform(1000) + 1000 * (arc4random() % 2);
    memcpy(mine.drawn[8] + 12, &number, 4);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < i; j++)
            expect(memcmp(mine.drawn[i], mine.drawn[j], 8), "a new number");
}

/* Another thread draws at any time: no replica waits for it, nor do the others' numbers change. */
static void *draw_alone(void *unused)
{
    unsigned char number;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < 1 + now.tv_nsec % 7; i++)
        getentropy(&number, 1);
    return unused;
}

/* By its number a process is found, by itself and by its child, which is another one. */
static void meet(void)
{
    char path[64], line[4096] = "";
    unsigned char first[2][16];
    int ends[2], status;
    signal(SIGUSR1, count_signal);
    expect(!kill(getpid(), SIGUSR1) && !raise(SIGUSR1) && !tgkill(getpid(), gettid(), SIGUSR1), "kill");
    expect(!syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) && !pthread_kill(pthread_self(), SIGUSR1), "a signal");
    snprintf(path, sizeof path, "/proc/%d/cmdline", getpid());
    FILE *file = fopen(path, "r");
    expect(file && fgets(line, sizeof line, file) && strstr(line, "program"), path);
    expect(!access(path, R_OK), "access");
    snprintf(path, sizeof path, "/proc/%d/exe", getpid());
    expect(realpath(path, line) && strstr(line, "program"), path);
    snprintf(path, sizeof path, "/proc/%d/comm", getpid());
    int name = open(path, O_WRONLY);
    expect(name >= 0 && write(name, "renamed", 7) == 7, path);
    close(name);
    expect(!killpg(getpgrp(), 0) && sched_getscheduler(getpid()) >= 0, "a group and a scheduler");
    /* Memory named by the number is this process's own. */
    int memory = shmget(getpid(), 4096, IPC_CREAT | IPC_EXCL | 0600);
    expect(memory >= 0 && !shmctl(memory, IPC_RMID, NULL), "shared memory");
    pid_t own = getpid();
    expect(!pipe(ends), "pipe");
    pid_t child = fork();
    if (!child) {
        getrandom(first[0], 16, 0);
        int is_well = getppid() == own && getpid() != own && !kill(getppid(), SIGUSR1) && write(ends[1], first, 16) == 16;
        _exit(is_well ? 5 : 6);
    }
    expect(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5, "a child");
    getrandom(mine.drawn[9], 16, 0);
    expect(read(ends[0], first[1], 16) == 16 && memcmp(first[1], mine.drawn[9], 16), "a child's own number");
    expect(signals == 6, "each signal");
}

int main(int count, char **words)
{
    int rank, ranks;
    pthread_t thread;
    unsigned char before[16];
    pid_t own = getpid();
    expect(getrandom(before, 16, 0) == 16, "early getrandom");
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pthread_create(&thread, NULL, draw_alone, NULL);
    who();
    expect(own == getpid(), "the number before MPI_Init");
    draw();
    meet();
    pthread_join(thread, NULL);
    memcpy(mine.drawn[9] + 8, before, 8);
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, (rank + 1) % ranks, 1, &other, sizeof other, MPI_BYTE,
                 (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(memcmp(&mine.drawn, &other.drawn, sizeof mine.drawn), "a stream of its own");
    printf("rank %d is %d on %s with %02x\n", rank, getpid(), mine.nodes[0], mine.drawn[0][0]);
    MPI_Finalize();
    return 0;
}
