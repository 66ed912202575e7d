/* Reads the time-stamp counter of the CPU by itself, and sends and prints what it says. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STAMPS 40

static uint64_t rdtsc(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static uint64_t rdtscp(uint32_t *cpu)
{
    uint32_t low, high;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(*cpu));
    return (uint64_t)high << 32 | low;
}

/* Threads like these leave all signals to the first one. */
static void *read_in_thread(void *nothing)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return rdtsc() > 0 ? nothing : NULL;
}

/* A child reads for itself. If it asked replica 0, it would wait for ever: that one has nothing to read. */
static int read_in_child(void)
{
    struct timespec time;
    int status = 1;
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(!strcmp(getenv("RAMPART_TEAM"), "0") || (rdtsc() && !clock_gettime(CLOCK_REALTIME, &time)) ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return status;
}

static volatile sig_atomic_t handled;

static void count_breakpoint(int signal)
{
    handled += signal == SIGTRAP ? 1 : 100;
}

static void read_in_handler(int signal)
{
    handled += rdtsc() > 0 && signal == SIGUSR1 ? 10 : 100;
}

/* Its own handlers: one of breakpoints, and one that no other signal may interrupt. */
static int handle(void)
{
    struct sigaction action = { .sa_handler = read_in_handler };
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    action.sa_handler = count_breakpoint;
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("int3");
    signal(SIGTRAP, count_breakpoint);
    __asm__ volatile("int3");
    return handled;
}

int main(int count, char **arguments)
{
    int rank, ranks, wrong = 0;
    uint64_t mine[STAMPS], others[STAMPS];
    uint32_t cpus[STAMPS / 2];
    pthread_t thread;
    void *result = NULL;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *child = read_in_child() ? "failed" : "read";
    int handled = handle();
    for (int i = 0; i < STAMPS; i += 2) {
        mine[i] = rdtsc();
        mine[i + 1] = rdtscp(&cpus[i / 2]);
    }
    for (int i = 1; i < STAMPS; i++)
        wrong += mine[i] <= mine[i - 1];
    MPI_Sendrecv(mine, STAMPS, MPI_UINT64_T, (rank + 1) % ranks, 1, others, STAMPS, MPI_UINT64_T,
                 (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(cpus, STAMPS / 2, MPI_UINT32_T, (rank + 1) % ranks, 2, (rank + ranks - 1) % ranks, 2,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_create(&thread, NULL, read_in_thread, mine);
    pthread_join(thread, &result);
    printf("%d wrong, handled %d, thread %s, child %s, %llu\n", wrong, handled,
           result == mine ? "read" : "failed", child, (unsigned long long)others[0]);
    MPI_Finalize();
    return 0;
}
