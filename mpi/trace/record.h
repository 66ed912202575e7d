/*
 * What a rank writes down of its calls, and where.
 *
 * Problem: a record of each MPI call must cost far less than the call, and must be there if the program is killed.
 * Idea: records are a few bytes each, collected in a block that lies ready; the block is appended to the rank's file
 * when it is full, or once a second. Why this way: nothing is allocated, nothing waits for another rank, and what
 * was written survives the process. The format is described in docs/trace-format.md; nothing here knows what a
 * record means.
 *
 * Time that passes in the library is not the program's own. In a call that does not block it is work all the same
 * (worked()); what passes in others is left to the simulation, and writing records is nobody's. */
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

/* A call of MPI begins: whether it is the program's own, and not one that the library makes within another. */
bool enter(void);

/* It ends. */
void leave(void);

/* Within a call that does not block: what it took is time of the CPU. */
void worked(void);

/* Within a call that looked for something, and it is not there: looking is the program's own work. */
void missed(void);

/* Opens the file of this rank and begins to record, if the environment names a folder to record into. */
void begin(int rank, int ranks, int ranks_of_node);

/* Begins a record: which, how long the program computed since the last one, and how long it was in calls that do not
 * block. A call with several records shares its time among them: so many are left with this one. Without begin(),
 * records go nowhere. */
void put_record(enum record record);
void put_record_of(int records, enum record record);

/* The fields of a record. A handle is whatever the library names a communicator or a request by. */
void put(uint64_t number);
void put_communicator(uint64_t handle);
void put_request(uint64_t handle);
void put_text(const char *text);

/* Appends what was recorded to the file. */
void flush_records(void);

/* The last record: how long the program ran. Nothing is recorded after it. */
void end(void);

#endif
