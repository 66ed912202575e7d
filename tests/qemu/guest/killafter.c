/* killafter COUNT PREFIX PROGRAM ARGUMENT...: runs a program and kills it (SIGKILL) right after its write number COUNT
   to a file whose path begins with PREFIX, whichever of its threads writes. Exit code 0 if it was killed, 1 if it ended
   before, 2 if it could not be run. It reads registers of x86-64 only. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

/* Threads that are inside of a system call: the kernel stops them at its begin and at its end. */
static pid_t inside[MOST_THREADS];

static int leaves(pid_t thread) {
    for (int place = 0; place < MOST_THREADS; place++)
        if (inside[place] == thread) return inside[place] = 0, 1;
    for (int place = 0; place < MOST_THREADS; place++)
        if (inside[place] == 0) return inside[place] = thread, 0;
    return 0;
}

static int writes_to(pid_t thread, const char *prefix) {
    struct user_regs_struct registers;
    char link[64], path[256];
    if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0 || registers.orig_rax != SYS_write) return 0;
    snprintf(link, sizeof link, "/proc/%d/fd/%lld", (int)thread, (long long)registers.rdi);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    long left = atol(arguments[1]);
    pid_t program = fork();
    if (program == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execvp(arguments[3], arguments + 3);
        _exit(2);
    }
    int status;
    waitpid(program, &status, 0);
    ptrace(PTRACE_SETOPTIONS, program, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    ptrace(PTRACE_SYSCALL, program, 0, 0);
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) return errno == ECHILD ? 1 : 2;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == program) return 1;
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) {
            if (leaves(thread) && writes_to(thread, arguments[2]) && --left == 0) {
                kill(program, SIGKILL);
                while (waitpid(-1, &status, __WALL) > 0) continue;
                return 0;
            }
            signal = 0;
        } else if (signal == SIGTRAP || signal == SIGSTOP) {
            signal = 0;
        }
        ptrace(PTRACE_SYSCALL, thread, 0, signal);
    }
}
