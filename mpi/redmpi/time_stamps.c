/* See time_stamps.h. */
#include "time_stamps.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "callers.h"
#include "clocks.h"
#include "identity.h"

#ifdef __x86_64__

#define BREAKPOINT 0xcc

/* [Intel SDM, volume 2B: RDTSC, RDTSCP] */
static const unsigned char rdtsc[] = { 0x0f, 0x31 }, rdtscp[] = { 0x0f, 0x01, 0xf9 };

/* An instruction that reads the counter. */
struct site {
    uintptr_t address;
    size_t size;
    int protection; /* of the memory that it is in */
};

static struct {
    struct site *all; /* by address */
    size_t count;
    struct sigaction others; /* what the program wants to do at breakpoints that are not ours */
    bool is_sharing;         /* a reading meanwhile, in a handler of another signal, is not shared */
} sites;

/* A line of the list: an address in a file, and the file, as the loader names it. */
struct listed {
    uintptr_t address;
    char *path;
};

struct list {
    struct listed *all;
    size_t count;
};

static int by_address(const void *one, const void *other)
{
    const struct site *a = one, *b = other;
    return (a->address > b->address) - (a->address < b->address);
}

static void read_counter(greg_t *registers, const struct site *site)
{
    uint64_t now = __builtin_ia32_rdtsc();
    if (is_in_order() && !sites.is_sharing) {
        sites.is_sharing = true;
        share_time(&now, sizeof now, (const void *)site->address);
        sites.is_sharing = false;
    }
    registers[REG_RAX] = (uint32_t)now;
    registers[REG_RDX] = (greg_t)(now >> 32);
    if (site->size == sizeof rdtscp)
        registers[REG_RCX] = 0; /* which CPU it is: differs between replicas */
    registers[REG_RIP] = (greg_t)(site->address + site->size);
}

static void end_by(int signal)
{
    REAL(sigaction);
    real(signal, &sites.others, NULL);
    raise(signal);
}

/* After a breakpoint, the address is that of the next byte. */
static void at_breakpoint(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct site key = { .address = (uintptr_t)registers[REG_RIP] - 1 };
    const struct site *site = bsearch(&key, sites.all, sites.count, sizeof key, by_address);
    int error = errno;
    if (site)
        read_counter(registers, site);
    else if (sites.others.sa_flags & SA_SIGINFO)
        sites.others.sa_sigaction(signal, info, context);
    else if (sites.others.sa_handler == SIG_DFL)
        end_by(signal);
    else if (sites.others.sa_handler != SIG_IGN)
        sites.others.sa_handler(signal);
    errno = error;
}

static size_t size_at(const unsigned char *code)
{
    if (!memcmp(code, rdtsc, sizeof rdtsc))
        return sizeof rdtsc;
    return !memcmp(code, rdtscp, sizeof rdtscp) ? sizeof rdtscp : 0;
}

static int protection_of(const ElfW(Phdr) *part)
{
    unsigned flags = part->p_flags;
    return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

/* The place in a loaded file, if the code there is what was found in the file. */
static void add_site(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        bool is_inside = address >= part->p_vaddr && address - part->p_vaddr + sizeof rdtscp <= part->p_memsz;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || !is_inside)
            continue;
        struct site site = { .address = info->dlpi_addr + address, .protection = protection_of(part) };
        site.size = size_at((const unsigned char *)site.address);
        if (site.size)
            sites.all[sites.count++] = site;
        return;
    }
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A loaded file may have another path than where the job was started, as through a folder relative to the program. */
static bool is_same_file(const char *listed, const char *loaded)
{
    struct stat one, other;
    if (!strcmp(listed, loaded))
        return true;
    return !strcmp(name_in(listed), name_in(loaded)) && !stat(listed, &one) && !stat(loaded, &other) &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static int add_sites(struct dl_phdr_info *info, size_t size, void *found)
{
    const struct list *list = found;
    (void)size;
    for (size_t i = 0; i < list->count; i++) {
        if (is_same_file(list->all[i].path, info->dlpi_name))
            add_site(info, list->all[i].address);
    }
    return 0;
}

/* One byte changes, so that a thread reads either instruction, whenever it comes here. */
static bool break_at(const struct site *site)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = site->address & ~(page - 1);
    if (mprotect((void *)begin, page, PROT_READ | PROT_WRITE | PROT_EXEC))
        return false;
    *(volatile unsigned char *)site->address = BREAKPOINT;
    return !mprotect((void *)begin, page, site->protection);
}

/* Replicas of which some share fewer readings would part: none begins. */
static void refuse(const char *why)
{
    fprintf(stderr, "rampart: --rdtsc is not possible: %s\n", why);
    _exit(2);
}

static struct list read_list(FILE *file)
{
    struct list list = { 0 };
    char *line = NULL, *path;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        struct listed *more = realloc(list.all, (list.count + 1) * sizeof *more);
        if (!more)
            refuse("there is no memory");
        list.all = more;
        line[strcspn(line, "\n")] = '\0';
        uintptr_t address = strtoul(line, &path, 16);
        path += *path == ' ';
        /* The MPI's own stay as they are. */
        if (is_of_mpi(path))
            continue;
        path = strdup(path);
        if (!path)
            refuse("there is no memory");
        list.all[list.count++] = (struct listed){ .address = address, .path = path };
    }
    free(line);
    return list;
}

static void free_list(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->all[i].path);
    free(list->all);
}

static void handle_breakpoints(void)
{
    REAL(sigaction);
    /* Another reading may come while one is shared. */
    struct sigaction action = { .sa_sigaction = at_breakpoint, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
    sigset_t ours;
    real(SIGTRAP, &action, &sites.others);
    sigemptyset(&ours);
    sigaddset(&ours, SIGTRAP);
    pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

void begin_time_stamps(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/time-stamps", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    struct list list = read_list(file);
    fclose(file);
    sites.all = calloc(list.count + 1, sizeof *sites.all);
    if (!sites.all)
        refuse("there is no memory");
    dl_iterate_phdr(add_sites, &list);
    if (sites.count != list.count)
        refuse("the program or a library is another file on this node than where the job was started");
    free_list(&list);
    qsort(sites.all, sites.count, sizeof *sites.all, by_address);
    if (sites.count)
        handle_breakpoints();
    for (size_t i = 0; i < sites.count; i++) {
        if (!break_at(&sites.all[i]))
            refuse("the program's code cannot be changed here");
    }
}

/* A breakpoint ends a process that blocks its signal. */
static const sigset_t *without_breakpoints(int how, const sigset_t *signals, sigset_t *room)
{
    if (!signals || !sites.count || how == SIG_UNBLOCK)
        return signals;
    *room = *signals;
    sigdelset(room, SIGTRAP);
    return room;
}

int pthread_sigmask(int how, const sigset_t *signals, sigset_t *before)
{
    REAL(pthread_sigmask);
    sigset_t room;
    return real(how, without_breakpoints(how, signals, &room), before);
}

int sigprocmask(int how, const sigset_t *signals, sigset_t *before)
{
    REAL(sigprocmask);
    sigset_t room;
    return real(how, without_breakpoints(how, signals, &room), before);
}

/* What the program does at breakpoints is done at those that are not ours. */
static int handle_others(const struct sigaction *action, struct sigaction *before)
{
    struct sigaction last = sites.others;
    if (action)
        sites.others = *action;
    if (before)
        *before = last;
    return 0;
}

void (*signal(int number, void (*handler)(int)))(int)
{
    REAL(signal);
    struct sigaction before, action = { .sa_handler = handler };
    if (number != SIGTRAP || !sites.count)
        return real(number, handler);
    handle_others(&action, &before);
    return before.sa_handler;
}

int sigaction(int signal, const struct sigaction *action, struct sigaction *before)
{
    REAL(sigaction);
    struct sigaction other;
    if (!sites.count)
        return real(signal, action, before);
    if (signal == SIGTRAP)
        return handle_others(action, before);
    if (action) {
        other = *action;
        sigdelset(&other.sa_mask, SIGTRAP);
    }
    return real(signal, action ? &other : NULL, before);
}

#else

void begin_time_stamps(const char *folder)
{
    (void)folder;
}

#endif
