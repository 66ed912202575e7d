/* What this process reports: a line each in a file of the job's folder, which `rampart mpirun` reads. */
#ifndef RAMPART_EVENTS_H
#define RAMPART_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* The exit code of a job that was stopped; `rampart mpirun` knows it by this. */
#define STOPPED 77

/* Opens a file of this process, NAME.RANK.REPLICA, in the folder that RAMPART_REDMPI names; -1 if there is none. */
int open_report(const char *name, int flags, int rank, int replica);

/* Opens this process's file in the folder that RAMPART_REDMPI names. */
void begin_events(int rank, int replica);

/* One line, as of printf, with the name of an event first. Written at once: the process may die. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The time of an event, in microseconds. The launcher ends all processes when one ends: it tells which was first. */
long long event_time(void);

/* Whether so many milliseconds have passed since it was so the last time. */
bool is_due(int64_t *last, int64_t every);

/* Says why, and ends the whole job with the exit code of a job that was stopped. */
_Noreturn void stop_job(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, where replicas have left the path that they had in common: an error has changed what one of them does. */
_Noreturn void leave_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends this process and the job, from any thread. Usually the launcher ends the job when a process exits; a launcher
 * that lets the others go on is asked to abort. */
_Noreturn void end_process(void);

/* The user wants each replica to keep what it receives, and no vote [Fiala15, 3.7.1]. */
bool keeps_all(void);

/* The user wants the job to go on where replicas differ. */
bool goes_on(void);

/* There is no majority for what was received. Stops the job, unless the user wants it to go on. */
void no_majority(const char *what);

#endif
