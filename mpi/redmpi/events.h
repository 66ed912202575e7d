/* What this process reports: a line each in a file of the job's folder, which `rampart mpirun` reads. */
#ifndef RAMPART_EVENTS_H
#define RAMPART_EVENTS_H

/* The exit code of a job that was stopped; `rampart mpirun` knows it by this. */
#define STOPPED 77

/* Opens this process's file in the folder that RAMPART_REDMPI names. */
void begin_events(int rank, int replica);

/* One line, as of printf, with the name of an event first. Written at once: the process may die. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says why, and ends the whole job with the exit code of a job that was stopped. */
_Noreturn void stop_job(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* There is no majority for what was received. Stops the job, unless the user wants it to go on. */
void no_majority(const char *what);

#endif
