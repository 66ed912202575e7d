/* See callers.h. */
#include "callers.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Beginnings of the names of libraries that belong to an MPI; the first one is this library. */
static const char *const of_mpi[] = { "librampart-", "libmpi",    "libopen-",      "libpmi",     "libpmix",
                                      "libevent",    "libhwloc",  "mca_",          "pmix_mca_",  "prte_",
                                      "libprrte",    "libuc",     "libfabric",     "libpsm",     "libinfinipath",
                                      "librdmacm",   "libmlx",    "libibverbs",    "libhcoll",   "libocoms",
                                      "libsharp",    "libcxi",    "libefa",        "libslurm",   "libmunge",
                                      "libnl-",      "libxpmem" };

/* The code of these libraries. A table never changes: when a library is loaded, another one takes its place, and nobody
 * knows who may still read the old one. */
#define MOST_RANGES 256
struct table {
    unsigned long long loaded; /* libraries, when the ranges were found */
    int count;
    struct {
        uintptr_t begin, end;
    } ranges[MOST_RANGES];
};
static _Atomic(struct table *) current;

bool is_of_mpi(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof of_mpi / sizeof *of_mpi; i++) {
        if (!strncmp(name, of_mpi[i], strlen(of_mpi[i])))
            return true;
    }
    return false;
}

static int add_ranges(struct dl_phdr_info *info, size_t size, void *place)
{
    struct table *table = place;
    (void)size;
    table->loaded = info->dlpi_adds;
    for (int i = 0; i < info->dlpi_phnum && is_of_mpi(info->dlpi_name); i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || table->count == MOST_RANGES)
            continue;
        table->ranges[table->count].begin = info->dlpi_addr + part->p_vaddr;
        table->ranges[table->count++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

/* Stops at the first library: how many were loaded so far is the same for all. */
static int see_loaded(struct dl_phdr_info *info, size_t size, void *result)
{
    (void)size;
    *(unsigned long long *)result = info->dlpi_adds;
    return 1;
}

bool comes_from_mpi(const void *caller)
{
    unsigned long long now = 0;
    dl_iterate_phdr(see_loaded, &now);
    struct table *table = atomic_load(&current);
    if (!table || now != table->loaded) {
        table = calloc(1, sizeof *table);
        if (!table)
            return false;
        dl_iterate_phdr(add_ranges, table);
        atomic_store(&current, table);
    }
    for (int i = 0; i < table->count; i++) {
        if ((uintptr_t)caller >= table->ranges[i].begin && (uintptr_t)caller < table->ranges[i].end)
            return true;
    }
    return false;
}
