/* ownership CASE: what Rampart's device grants its owner and refuses others, one case a run; fails with one line if the
   device does otherwise. "hold" says that it has the device, and waits to be killed; so does "leak", after it has left
   a descriptor to a child, whose number it says. "try" says what opening gives, "open" or an error. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h"
#include "rampart_abi.h"

static int device(int flags) {
    int file = open("/dev/rampart", O_RDWR | flags);
    must(file >= 0, "open");
    return file;
}

static void granted(int file) {
    struct rampart_info info = {0};
    must(ioctl(file, RAMPART_GET_INFO, &info) == 0, "GET_INFO");
    must(info.abi == RAMPART_ABI, "abi");
}

static void refused(int file) {
    struct rampart_info info = {0};
    errno = 0;
    must(ioctl(file, RAMPART_GET_INFO, &info) == -1 && errno == EPERM, "GET_INFO is not refused");
    must(info.abi == 0 && info.offers == 0, "GET_INFO wrote though it was refused");
}

static void succeeds(pid_t child) {
    int status;
    must(waitpid(child, &status, 0) == child && status == 0, "child");
}

static void wait_for_ever(const char *line) {
    must(puts(line) >= 0 && fflush(stdout) == 0, "puts");
    for (;;) pause();
}

static void try_to_open(void) {
    int file = open("/dev/rampart", O_RDWR | O_CLOEXEC);
    puts(file >= 0 ? "open" : strerrorname_np(errno));
}

/* Opens without one capability. */
static void without(int capability) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    must(syscall(SYS_capget, &header, sets) == 0, "capget");
    must(sets[0].effective & (1U << capability), "has it not in the first place");
    sets[0].effective &= ~(1U << capability);
    must(syscall(SYS_capset, &header, sets) == 0, "capset");
    try_to_open();
}

static void info(void) {
    struct rampart_info info;
    must(ioctl(device(O_CLOEXEC), RAMPART_GET_INFO, &info) == 0, "GET_INFO");
    printf("abi %u contig %d reporting %d taken %d failure %d\n", info.abi,
        !!(info.offers & RAMPART_OFFERS_CONTIG_ALLOC), !!(info.offers & RAMPART_OFFERS_PAGE_REPORTING),
        !!(info.offers & RAMPART_REPORTING_TAKEN), !!(info.offers & RAMPART_OFFERS_MEMORY_FAILURE));
}

static void nonsense(void) {
    int file = device(O_CLOEXEC);
    must(ioctl(file, RAMPART_GET_INFO, NULL) == -1 && errno == EFAULT, "no place for an answer");
    must(ioctl(file, _IO(0xB7, 0xff)) == -1 && errno == ENOTTY, "an unknown request");
    must(ioctl(file, _IOR(0xB7, 0, __u32)) == -1 && errno == ENOTTY, "a request of another size");
    granted(file);
}

static void *granted_to_thread(void *file) {
    granted(*(int *)file);
    return NULL;
}

static void thread(void) {
    int file = device(O_CLOEXEC);
    pthread_t other;
    must(pthread_create(&other, NULL, granted_to_thread, &file) == 0, "pthread_create");
    must(pthread_join(other, NULL) == 0, "pthread_join");
}

/* One descriptor of two is closed: the owner stays. */
static void duplicate(void) {
    int file = device(O_CLOEXEC), other = dup(file);
    must(close(file) == 0, "close");
    granted(other);
    must(open("/dev/rampart", O_RDWR) == -1 && errno == EBUSY, "a second open");
    must(close(other) == 0, "close");
    granted(device(O_CLOEXEC));
}

static void forked(void) {
    int file = device(O_CLOEXEC);
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        refused(file);
        must(open("/dev/rampart", O_RDWR) == -1 && errno == EBUSY, "the child opens it too");
        _exit(0);
    }
    succeeds(child);
    granted(file);
}

static void send_file(int socket, int file) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &file, sizeof(int));
    must(sendmsg(socket, &message, 0) == 1, "sendmsg");
}

static int received_file(int socket) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    int file;
    must(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message), "recvmsg");
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return file;
}

static void passed(void) {
    int ends[2], file;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        refused(received_file(ends[1]));
        _exit(0);
    }
    file = device(O_CLOEXEC);
    send_file(ends[0], file);
    succeeds(child);
    granted(file);
}

/* The descriptor outlives exec, the owner does not. */
static void executed(void) {
    char number[16];
    snprintf(number, sizeof(number), "%d", device(0));
    execl("/proc/self/exe", "ownership", "inherited", number, NULL);
    must(0, "exec");
}

static void inherited(int file) {
    refused(file);
    granted(device(O_CLOEXEC));
    refused(file);
}

static void leak(void) {
    char line[32];
    device(O_CLOEXEC);
    pid_t child = fork();
    must(child >= 0, "fork");
    snprintf(line, sizeof(line), "child %d", child);
    if (child == 0)
        for (;;) pause();
    wait_for_ever(line);
}

static void hold(void) {
    device(O_CLOEXEC);
    wait_for_ever("holds");
}

static void without_sys_admin(void) { without(CAP_SYS_ADMIN); }

static void without_sys_rawio(void) { without(CAP_SYS_RAWIO); }

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"hold", hold},
    {"leak", leak},
    {"try", try_to_open},
    {"without-sys-admin", without_sys_admin},
    {"without-sys-rawio", without_sys_rawio},
    {"info", info},
    {"nonsense", nonsense},
    {"thread", thread},
    {"duplicate", duplicate},
    {"forked", forked},
    {"passed", passed},
    {"executed", executed},
};

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "inherited")) {
        inherited(atoi(words[2]));
        return 0;
    }
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        if (count == 2 && !strcmp(words[1], CASES[i].name)) {
            CASES[i].run();
            return 0;
        }
    }
    must(0, "no such case");
}
