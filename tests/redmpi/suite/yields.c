/* Lets a program of MPICH with UCX leave the CPU to others when it waits: preloaded for tests of atomic operations,
 * which take minutes where there are more processes than CPUs.
 *
 *   gcc -O2 -shared -fPIC -o yields.so yields.c
 *   LD_PRELOAD=$PWD/yields.so tests/redmpi/suite/run mpich ...
 *
 * After twenty looks in vain for something to do, a process calls sched_yield. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*real)(void *);
    static _Thread_local int in_vain;
    if (!real)
        real = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned done = real(worker);
    in_vain = done ? 0 : in_vain + 1;
    if (in_vain == 20) {
        in_vain = 0;
        sched_yield();
    }
    return done;
}
