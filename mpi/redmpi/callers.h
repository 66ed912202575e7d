/* Who calls a function of the C library that this library replaces: the program, or its MPI. */
#ifndef RAMPART_CALLERS_H
#define RAMPART_CALLERS_H

#include <dlfcn.h>
#include <stdbool.h>

/* The address to which a call returns shows whose it is. This library counts as the MPI. */
bool comes_from_mpi(const void *caller);

/* Whether a file is a library of the MPI. */
bool is_of_mpi(const char *path);

#define CALLER __builtin_return_address(0)

/* The function of the C library that has the name of this one. */
#define REAL(name)                                  \
    static __typeof__(&name) real;                  \
    if (!real)                                      \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#endif
