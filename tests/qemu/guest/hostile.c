/* hostile CALLS SEED: owners of Rampart's device that mean ill, one after the other, until so many calls were made.
   Each has four threads that claim, give back, map, touch, unmap and ask for nonsense at random, with numbers of their
   own and others' claims; it may leave children with its descriptor, and is killed at a random moment. Calls that take
   bad frames out of use are few, since that is for good. Prints how many calls were made, and how many succeeded. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "must.h"
#include "rampart_abi.h"

enum { PAGE = 4096, THREADS = 4, CLAIMS = 32, WINDOWS = 16, FRAMES = 1 << 18 };

static const uint32_t sizes[] = {1, 2, 8, 64, 512, 513, 1024, 4096, RAMPART_CLAIM_MOST};
enum { SIZES = sizeof(sizes) / sizeof(*sizes), SMALL_SIZES = 4 };

struct counts {
    _Atomic uint64_t calls, successes;
};

static struct counts *counts;
static int device;
/* Whether this is a child of the owner, all of whose calls are refused, and not counted. It makes few. */
static int is_child;
/* How many sizes the owner's claims have. Claims of much memory are slow: one owner in eight makes them. */
static int sizes_used;
/* Shared by the threads without a lock: they take each other's. */
static volatile struct rampart_claim claims[CLAIMS];
static volatile struct {
    char *at;
    size_t bytes;
} windows[WINDOWS];

static __thread uint64_t state;
static __thread sigjmp_buf escape;

static uint64_t dice(uint64_t sides) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % sides;
}

static uint64_t some_frames(void) {
    return sizes[dice(sizes_used)];
}

static void claim(void) {
    struct rampart_claim request = {.first = dice(FRAMES), .frames = some_frames(), .how = dice(2)};
    if (dice(4)) request.first &= ~511ull;
    if (!dice(16)) request.frames = dice(UINT32_MAX);
    if (!dice(16)) request.first = dice(UINT64_MAX);
    if (!dice(32)) request.how = dice(8);
    if (!dice(32)) request.zero = dice(3);
    int got = ioctl(device, RAMPART_CLAIM, &request) == 0;
    counts->successes += got;
    if (got) memcpy((void *)&claims[dice(CLAIMS)], &request, sizeof(request));
}

static void claim_listed(void) {
    struct rampart_listed request = {.zone = dice(3), .migratetype = dice(3), .order = dice(9)};
    if (!dice(16)) request.node = dice(UINT32_MAX);
    if (!dice(16)) request.zone = dice(UINT32_MAX);
    if (!dice(16)) request.migratetype = dice(dice(2) ? 8 : UINT32_MAX);
    if (!dice(16)) request.order = dice(dice(2) ? 65 : UINT32_MAX);
    if (!dice(4)) request.older = dice(3);
    if (!dice(32)) request.first = request.claim = dice(UINT64_MAX);
    int got = ioctl(device, RAMPART_CLAIM_LISTED, &request) == 0;
    counts->successes += got;
    struct rampart_claim had = {.first = request.first, .claim = request.claim, .frames = request.frames};
    if (got) memcpy((void *)&claims[dice(CLAIMS)], &had, sizeof(had));
}

static void claim_new(void) {
    struct rampart_node_block request = {.node = dice(16) ? 0 : dice(UINT32_MAX)};
    if (!dice(32)) request.first = request.claim = dice(UINT64_MAX);
    int got = ioctl(device, RAMPART_CLAIM_NEW, &request) == 0;
    counts->successes += got;
    struct rampart_claim had = {.first = request.first, .claim = request.claim, .frames = request.frames};
    if (got) memcpy((void *)&claims[dice(CLAIMS)], &had, sizeof(had));
}

static void give_back(void) {
    uint64_t bad[4] = {dice(FRAMES), dice(UINT64_MAX), 0, 0};
    const volatile struct rampart_claim *of = &claims[dice(CLAIMS)];
    struct rampart_give_back verdict = {.first = of->first, .claim = of->claim, .flags = dice(2)};
    if (!dice(8)) verdict.claim = dice(1000);
    if (!dice(8)) verdict.first += dice(3);
    if (!dice(8)) verdict.flags = dice(UINT32_MAX) & ~RAMPART_FORCE;
    if (!dice(8)) {
        verdict.bad = dice(2) ? (uintptr_t)bad : dice(UINT64_MAX);
        verdict.bad_frames = dice(3) ? dice(5) : dice(UINT32_MAX);
    }
    if (!dice(2000)) {
        bad[0] = of->first;
        verdict.bad = (uintptr_t)bad;
        verdict.bad_frames = 1;
    }
    counts->successes += ioctl(device, RAMPART_GIVE_BACK, &verdict) == 0;
}

static void map(void) {
    int number = dice(WINDOWS);
    uint64_t first = dice(2) ? claims[dice(CLAIMS)].first : dice(FRAMES);
    size_t bytes = (dice(4) ? some_frames() : dice(FRAMES) + 1) * PAGE;
    int how = dice(8) ? MAP_SHARED : MAP_PRIVATE, rights = dice(16) ? PROT_READ | PROT_WRITE : (int)dice(8);
    char *at = mmap(NULL, bytes, rights, how | (dice(32) ? 0 : MAP_POPULATE), device, first * PAGE);
    if (at == MAP_FAILED) return;
    counts->successes++;
    windows[number].at = at;
    windows[number].bytes = bytes;
}

static void touch(void) {
    int number = dice(WINDOWS);
    char *at = windows[number].at;
    size_t bytes = windows[number].bytes;
    if (!at || !bytes || sigsetjmp(escape, 0)) return;
    for (int times = 0; times < 64; times++) {
        volatile char *byte = at + dice(bytes);
        if (dice(2)) *byte = 1;
        else (void)*byte;
    }
    counts->successes++;
}

static void disturb(void) {
    int number = dice(WINDOWS);
    char *at = windows[number].at;
    size_t bytes = windows[number].bytes;
    if (!at) return;
    /* What is no longer mapped may be another thread's stack next. */
    windows[number].at = NULL;
    switch (dice(6)) {
        case 0: munmap(at, bytes); break;
        case 1: munmap(at + bytes / 2 / PAGE * PAGE, PAGE); break;
        case 2: mprotect(at, bytes, dice(8)); break;
        case 3: madvise(at, bytes, dice(26)); break;
        case 4: at = mremap(at, bytes, bytes, MREMAP_MAYMOVE); break;
        case 5: mlock(at, bytes); break;
    }
}

static void ask_nonsense(void) {
    struct rampart_lifetime lifetime = {dice(100), dice(100)};
    struct rampart_info info;
    switch (dice(10)) {
        case 0: ioctl(device, dice(UINT32_MAX), dice(UINT64_MAX)); break;
        case 1: ioctl(device, _IOC(dice(4), 0xB7, dice(8), dice(64)), dice(UINT64_MAX)); break;
        case 2: ioctl(device, RAMPART_SET_LIFETIME, &lifetime); break;
        case 3: ioctl(device, RAMPART_RENEW); break;
        case 4: ioctl(device, RAMPART_CLAIM, (void *)windows[dice(WINDOWS)].at); break;
        case 5: ioctl(device, RAMPART_GIVE_BACK, (void *)windows[dice(WINDOWS)].at); break;
        case 6: close(dup(device)); break;
        case 7:
            if (!dice(16)) ioctl(device, RAMPART_GET_INFO, &info);
            break;
        case 8: ioctl(device, RAMPART_CLAIM_LISTED, (void *)windows[dice(WINDOWS)].at); break;
        case 9: ioctl(device, RAMPART_CLAIM_NEW, (void *)windows[dice(WINDOWS)].at); break;
    }
}

__attribute__((noreturn)) static void *misbehave(void *seed) {
    state = (uintptr_t)seed * 0x9e3779b97f4a7c15 + 1;
    for (;;) {
        switch (dice(17)) {
            case 0 ... 2: claim(); break;
            case 3 ... 4: claim_listed(); break;
            case 16: claim_new(); break;
            case 5 ... 8: give_back(); break;
            case 9 ... 10: map(); break;
            case 11 ... 13: touch(); break;
            case 14: disturb(); break;
            case 15: ask_nonsense(); break;
        }
        if (is_child) usleep(20000);
        else counts->calls++;
    }
}

static void see_signal(int number) {
    (void)number;
    siglongjmp(escape, 1);
}

/* Has the device until it is killed; so have its children, which nobody kills but they end after a while. */
static void own(uint64_t seed) {
    struct sigaction action = {.sa_handler = see_signal, .sa_flags = SA_NODEFER};
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sizes_used = seed % 8 ? SMALL_SIZES : SIZES;
    device = open("/dev/rampart", O_RDWR);
    if (device < 0) _exit(1);
    for (uintptr_t thread = 1; thread < THREADS; thread++) {
        pthread_t id;
        pthread_create(&id, NULL, misbehave, (void *)(seed * THREADS + thread));
    }
    if (seed % 4 == 0 && fork() == 0) {
        is_child = 1;
        alarm(1);
        misbehave((void *)(seed + 1));
    }
    misbehave((void *)(seed * THREADS));
}

int main(int arguments, char **values) {
    must(arguments == 3, "hostile CALLS SEED");
    uint64_t calls = strtoull(values[1], NULL, 0), seed = strtoull(values[2], NULL, 0);
    counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(counts != MAP_FAILED, "mmap");
    signal(SIGCHLD, SIG_DFL);
    for (uint64_t owner = 0; counts->calls < calls; owner++) {
        pid_t child = fork();
        if (child == 0) own(seed * 1000 + owner);
        state = seed + owner + 1;
        struct timespec time = {0, 20000000 + dice(400000000)};
        nanosleep(&time, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    printf("%lu calls, %lu succeeded\n", counts->calls, counts->successes);
    return 0;
}
