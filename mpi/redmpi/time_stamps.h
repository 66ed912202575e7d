/* The time-stamp counter of the CPU: what the program reads of it is the same in all replicas.
 *
 * Problem: programs such as GROMACS read it with an instruction (`rdtsc`), and send or print what they make of it; no
 * function is called that this library could replace. Idea: `rampart mpirun --rdtsc` finds these instructions in the
 * files of the program and its libraries. Here, the first byte of each becomes a breakpoint (`int3`). The handler of
 * its signal reads the counter, and shares the value as that of any other clock. Why this way: the kernel can make
 * every reading a signal (PR_TSC_SIGSEGV), but then also the many of the MPI and of the C library's clocks, and those
 * in programs that the application starts, which would be killed.
 *
 * The number of readings must be the same in all replicas. So what reads the counter only while it waits is not among
 * the places: the MPI, the C library, OpenMP. */
#ifndef RAMPART_TIME_STAMPS_H
#define RAMPART_TIME_STAMPS_H

/* Begins with it, if the job's folder says where such instructions are. */
void begin_time_stamps(const char *folder);

#endif
