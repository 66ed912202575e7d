/* The records of a rank's calls, and their file.
 *
 * Problem: a record of each MPI call must cost far less than the call, and must survive a kill of the program. Idea:
 * records are a few bytes each, in a preallocated block; the block is appended to the rank's file when it is full,
 * or once a second. Why this way: nothing is allocated, nothing waits for another rank, and written records survive
 * the process. docs/trace-format.md describes the format; this file does not know what a record means.
 *
 * Time in the MPI library is not the program's own. In a nonblocking call it counts as work (worked()); in other
 * calls the simulation computes it. The time of writing records counts for nobody. */
#ifndef RAMPART_RECORD_H
#define RAMPART_RECORD_H

#include <stdbool.h>
#include <stdint.h>

/* Records by their numbers in the file. */
enum record {
    RECORD_SEND = 1,
    RECORD_RECV = 2,
    RECORD_ISEND = 3,
    RECORD_IRECV = 4,
    RECORD_SENDRECV = 5,
    RECORD_DONE = 6,
    RECORD_SEND_INIT = 7,
    RECORD_RECV_INIT = 8,
    RECORD_START = 9,
    RECORD_FREE = 10,
    RECORD_COLLECTIVE = 11,
    RECORD_COMMUNICATOR = 12,
    RECORD_OTHER = 13,
    RECORD_END = 14,
};

/* An MPI call begins. Returns whether the program made it, and not the library within another call. */
bool enter(void);

/* The call ends. */
void leave(void);

/* In a nonblocking call: its time is CPU time. */
void worked(void);

/* In a test that found nothing: its time is the program's own work. */
void missed(void);

/* Opens this rank's file and begins to record, if the environment names a folder for records. */
void begin(int rank, int ranks, int ranks_of_node);

/* Begins a record: its kind, the program's own time since the last one, and the time in nonblocking calls. A call
 * with several records divides its time among them: so many are left, this one included. Without begin(), records
 * are discarded. */
void put_record(enum record record);
void put_record_of(int records, enum record record);

/* The fields of a record. A handle is the library's name for a communicator or a request. */
void put(uint64_t number);
void put_communicator(uint64_t handle);
void put_request(uint64_t handle);
void put_text(const char *text);

/* Appends the records to the file. */
void flush_records(void);

/* The last record: the program's run time. Nothing is recorded after it. */
void end(void);

#endif
