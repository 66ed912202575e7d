/* Checks its own data: fills its heap with what can be computed again, does what its first argument names, rests
 * until its heap is locked, and checks. It says "right" and exits with 0; wrong data are "wrong", 3; no memory is
 * "no memory", 4. `sums WAY MIB`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PART (256 << 10)
#define WORDS (PART / 8)
#define MOST 4096

static uint64_t *parts[MOST];
static size_t count;
static const char *self;

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(5);
}

static void quit(const char *text, int code)
{
    say(text);
    _exit(code);
}

static uint64_t content(uint64_t part, uint64_t word)
{
    return (part << 32 | word) * 0x9e3779b97f4a7c15 + 1;
}

static void fill(void)
{
    for (size_t part = 0; part < count; part++) {
        parts[part] = malloc(PART);
        if (!parts[part])
            quit("no memory\n", 4);
        for (size_t word = 0; word < WORDS; word++)
            parts[part][word] = content(part, word);
    }
}

/* Of the part of so many threads; ends the program at the first word that is wrong. */
static void check_from(size_t first, size_t step)
{
    for (size_t part = first; part < count; part += step)
        for (size_t word = 0; word < WORDS; word++)
            if (parts[part][word] != content(part, word))
                quit("wrong\n", 3);
}

static void check(void)
{
    check_from(0, 1);
}

static void rest(long milliseconds)
{
    struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
    while (nanosleep(&time, &time) < 0 && errno == EINTR)
        ;
}

static void must(int is_done, const char *what)
{
    if (!is_done) {
        perror(what);
        _exit(6);
    }
}

/* A child checks, and writes to its own copy; the parent must not see that. */
static void child(void)
{
    rest(50);
    check();
    memset(parts[0], 0x55, PART);
    memset(parts[count - 1], 0x55, PART);
    _exit(9);
}

static void wait_for(pid_t pid, int code)
{
    int status;
    must(pid > 0 && waitpid(pid, &status, 0) == pid, "wait");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code) {
        char line[60];
        snprintf(line, sizeof line, "the child ended with %x\n", status);
        quit(line, 7);
    }
}

static void parent_of(pid_t pid)
{
    if (pid == 0)
        child();
    wait_for(pid, 9);
}

#ifdef SMALL
static int special(const char *way)
{
    (void)way;
    return 0;
}
#else
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <spawn.h>
#include <stddef.h>

extern char **environ;
static volatile sig_atomic_t signals;

/* A handler that touches the heap. */
static void on_signal(int signal)
{
    (void)signal;
    size_t part = ++signals % count;
    if (parts[part][7] != content(part, 7))
        quit("wrong\n", 3);
}

static void handle(int signal, int flags)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
    must(sigaction(signal, &action, 0) == 0, "sigaction");
}

static void storm(int timer, int signal)
{
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
    handle(signal, SA_RESTART);
    must(setitimer(timer, &often, 0) == 0, "setitimer");
    for (int round = 0; round < 5; round++) {
        rest(20);
        check();
    }
    must(setitimer(timer, &never, 0) == 0, "setitimer");
}

static void *check_blocked(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    rest(50);
    check();
    return unused;
}

static void *check_share(void *share)
{
    rest(50);
    check_from((size_t)share, 8);
    return 0;
}

static void thread(void *(*work)(void *), size_t threads)
{
    pthread_t all[8];
    for (size_t i = 0; i < threads; i++)
        must(pthread_create(&all[i], 0, work, (void *)i) == 0, "pthread_create");
    for (size_t i = 0; i < threads; i++)
        pthread_join(all[i], 0);
}

static void *end_late(void *unused)
{
    rest(60);
    return unused;
}

/* So that what is allocated between two of these lies in blocks of its own. */
static void keep_apart(void)
{
    for (size_t size = 256; size <= 4096; size += 128)
        for (int times = 0; times < 100; times++)
            must(malloc(size) != 0, "malloc");
}

/* Threads that begin and end while their locale and what the C library keeps of them are locked. */
static void localized(void)
{
    thread(check_share, 1);
    keep_apart();
    setlocale(LC_ALL, "C.UTF-8");
    keep_apart();
    for (int round = 0; round < 12; round++) {
        pthread_t second;
        check();
        rest(40);
        must(pthread_create(&second, 0, end_late, 0) == 0 && pthread_detach(second) == 0, "pthread_create");
    }
    rest(100);
}

static void daemonize(void)
{
    int ends[2];
    char answer = 0;
    must(pipe(ends) == 0, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) {
            rest(50);
            check();
            _exit(write(ends[1], "y", 1) != 1);
        }
        _exit(9);
    }
    wait_for(pid, 9);
    close(ends[1]);
    must(read(ends[0], &answer, 1) == 1 && answer == 'y', "the daemon's answer");
}

static void stopped_and_continued(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        for (int round = 0; round < 5; round++) {
            kill(parent, SIGSTOP);
            rest(20);
            kill(parent, SIGCONT);
            rest(20);
        }
        _exit(9);
    }
    for (int round = 0; round < 20; round++) {
        rest(10);
        check();
    }
    wait_for(pid, 9);
}

/* Allows what a program needs that has begun, and answers everything else so. */
static void filter(uint32_t otherwise)
{
    static const int allowed[] = { SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_nanosleep,
                                   SYS_clock_nanosleep, SYS_brk, SYS_mmap, SYS_munmap, SYS_futex, SYS_rt_sigprocmask,
                                   SYS_restart_syscall, SYS_sched_yield };
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter code[COUNT + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (int i = 0; i < COUNT; i++)
        code[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], COUNT - i, 0);
    code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { COUNT + 3, code };
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

static void strict(void)
{
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "seccomp");
    check();
    say("right\n");
    syscall(SYS_exit, 0);
}

/* It may not ask for its number, and its thread ends. */
static void strict_kills(void)
{
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "seccomp");
    check();
    say("right\n");
    syscall(SYS_getpid);
}

static void limit(int which, rlim_t soft, rlim_t hard)
{
    struct rlimit limit = { soft, hard };
    must(setrlimit(which, &limit) == 0, "setrlimit");
}

/* Takes memory until there is none, gives it back, and goes on. */
static void use_up(void)
{
    static void *taken[1 << 16];
    size_t blocks = 0;
    while (blocks < 1 << 16 && (taken[blocks] = malloc(1 << 20)))
        memset(taken[blocks++], 1, 4096);
    must(blocks < 1 << 16, "memory has an end");
    while (blocks > 0)
        free(taken[--blocks]);
}

/* Makes mappings until the kernel keeps no more apart. */
static void map_all(void)
{
    enum { LEFT = 1 << 17 };
    static void *all[LEFT];
    size_t made = 0;
    for (; made < LEFT; made++) {
        all[made] = mmap(0, 4096, made % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all[made] == MAP_FAILED)
            break;
    }
    check();
    rest(50);
    check();
    while (made > 0)
        munmap(all[--made], 4096);
}

static pid_t raw_clone3(void)
{
    struct clone_args arguments = { .exit_signal = SIGCHLD };
    return syscall(SYS_clone3, &arguments, sizeof arguments);
}

static void executed(char *const *arguments)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execv(self, arguments);
        _exit(8);
    }
    wait_for(pid, 0);
}

/* As a debugger starts a program: from the first line on, each signal stops the child for its parent. */
static void traced(char *const *arguments)
{
    int status;
    rest(60);
    pid_t pid = vfork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        check();
        execv(self, arguments);
        _exit(8);
    }
    while (must(waitpid(pid, &status, 0) == pid, "wait"), WIFSTOPPED(status)) {
        long signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        must(ptrace(PTRACE_CONT, pid, 0, signal) == 0, "ptrace");
    }
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the traced child");
}

static int is(const char *way, const char *name)
{
    return strcmp(way, name) == 0;
}

static int makes_children(const char *way)
{
    char *again[] = { (char *)self, "silent", 0 };
    pid_t pid;
    if (is(way, "fork"))
        parent_of(fork());
    else if (is(way, "_Fork"))
        parent_of(_Fork());
    else if (is(way, "clone"))
        parent_of(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    else if (is(way, "clone3"))
        parent_of(raw_clone3());
    else if (is(way, "vfork"))
        executed(again);
    else if (is(way, "traced"))
        traced(again);
    else if (is(way, "spawn")) {
        must(posix_spawn(&pid, self, 0, 0, again, environ) == 0, "posix_spawn");
        wait_for(pid, 0);
    } else if (is(way, "system"))
        must(system("exit 0") == 0, "system");
    else if (is(way, "daemon"))
        daemonize();
    else if (is(way, "exec")) {
        again[1] = "plain";
        execv(self, again);
    } else if (is(way, "setuid-child")) {
        if ((pid = fork()) == 0) {
            must(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
            child();
        }
        wait_for(pid, 9);
    } else
        return 0;
    return 1;
}

static int signalled(const char *way)
{
    if (is(way, "alarms"))
        storm(ITIMER_REAL, SIGALRM);
    else if (is(way, "profiles"))
        storm(ITIMER_PROF, SIGPROF);
    else if (is(way, "children-end")) {
        handle(SIGCHLD, SA_RESTART);
        for (int i = 0; i < 50; i++)
            if (fork() == 0)
                _exit(0);
        while (waitpid(-1, 0, 0) > 0)
            ;
    } else if (is(way, "blocked"))
        check_blocked(0);
    else if (is(way, "blocked-thread"))
        thread(check_blocked, 1);
    else if (is(way, "localized"))
        localized();
    else if (is(way, "own-stack")) {
        stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
        must(sigaltstack(&stack, 0) == 0, "sigaltstack");
        handle(SIGUSR1, SA_ONSTACK);
        rest(100);
        raise(SIGUSR1);
    } else if (is(way, "ignored")) {
        signal(SIGSEGV, SIG_IGN);
        signal(SIGBUS, SIG_IGN);
    } else if (is(way, "defaults")) {
        for (int number = 1; number < 65; number++)
            signal(number, SIG_DFL);
    } else if (is(way, "stops"))
        stopped_and_continued();
    else if (is(way, "killed"))
        kill(getpid(), SIGKILL);
    else if (is(way, "aborts"))
        abort();
    else if (is(way, "crashes"))
        *(volatile char *)16 = 1;
    else if (is(way, "exit-7"))
        _exit(7);
    else if (is(way, "thread-ends")) {
        check();
        say("right\n");
        syscall(SYS_exit, 7);
    }
    else
        return 0;
    return 1;
}

static int limited(const char *way)
{
    if (is(way, "mlockall-current"))
        must(mlockall(MCL_CURRENT) == 0, "mlockall");
    else if (is(way, "mlockall-future"))
        must(mlockall(MCL_FUTURE) == 0 && malloc(1 << 20), "mlockall");
    else if (is(way, "mlockall-both"))
        must(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 && malloc(1 << 20), "mlockall");
    else if (is(way, "mlock"))
        must(mlock(parts[0], PART) == 0, "mlock");
    else if (is(way, "files-64"))
        limit(RLIMIT_NOFILE, 64, 64);
    else if (is(way, "files-0"))
        limit(RLIMIT_NOFILE, 0, 0);
    else if (is(way, "addresses"))
        limit(RLIMIT_AS, 1 << 20, 1 << 20);
    else if (is(way, "data"))
        limit(RLIMIT_DATA, 0, 0);
    else if (is(way, "threads-0"))
        limit(RLIMIT_NPROC, 0, 0);
    else if (is(way, "use-up"))
        use_up();
    else if (is(way, "map-all"))
        map_all();
    else if (is(way, "close-files"))
        must(syscall(SYS_close_range, 3, ~0u, 0) == 0, "close_range");
    else if (is(way, "cover-files")) {
        int null = open("/dev/null", O_RDWR);
        for (int file = 3; file < 256; file++)
            if (file != null)
                dup2(null, file);
    } else
        return 0;
    return 1;
}

static int sandboxed(const char *way)
{
    if (is(way, "strict"))
        strict();
    else if (is(way, "strict-kills"))
        strict_kills();
    else if (is(way, "filter-errors"))
        filter(SECCOMP_RET_ERRNO | EPERM);
    else if (is(way, "filter-kills"))
        filter(SECCOMP_RET_KILL_PROCESS);
    else if (is(way, "no-new-privileges"))
        must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl");
    else if (is(way, "not-dumpable"))
        must(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "prctl");
    else if (is(way, "no-huge-pages"))
        must(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "prctl");
    else if (is(way, "chroot"))
        must(mkdtemp((char[]){ "emptyXXXXXX" }) && chroot(".") == 0 && chdir("/") == 0, "chroot");
    else if (is(way, "setuid"))
        must(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
    else if (is(way, "new-user"))
        must(unshare(CLONE_NEWUSER) == 0, "unshare");
    else if (is(way, "new-pids")) {
        must(unshare(CLONE_NEWPID) == 0, "unshare");
        parent_of(fork());
    } else
        return 0;
    return 1;
}

/* Until it is over the script looks at it from outside. */
static void looked_at(void)
{
    char line[20];
    int file = open("pid", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(file >= 0 && write(file, line, snprintf(line, sizeof line, "%d\n", getpid())) > 0, "pid");
    close(file);
    for (int round = 0; round < 20; round++) {
        rest(50);
        check();
    }
}

static int special(const char *way)
{
    if (is(way, "silent")) {
        rest(50);
        check();
        _exit(0);
    } else if (is(way, "long"))
        looked_at();
    else if (is(way, "threads"))
        thread(check_share, 8);
    else
        return makes_children(way) || signalled(way) || limited(way) || sandboxed(way);
    return 1;
}
#endif

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "plain";
    int mib = argc > 2 ? atoi(argv[2]) : 8;
    self = argv[0];
    count = (size_t)mib * 4;
    if (mib < 1 || count > MOST)
        return 2;
    fill();
    if (strcmp(way, "plain") != 0) {
        rest(30);
        if (!special(way))
            return 2;
    }
    rest(60);
    check();
    say("right\n");
    return 0;
}
