/* Partitioned communication: one message of a program, handed over in parts as they become ready.
 *
 * Problem: the MPI sends parts as it likes, in messages that nobody compares, and the receiver may cut the whole into
 * other parts than the sender. Idea: each part of the sender is a message of ours, compared like any other; a part of
 * the receiver is there when all messages are there of which it has bytes. Why this way: all that holds for messages
 * holds for parts, and what has arrived depends on time only where the program asks for it (MPI_Parrived), as in a
 * test.
 *
 * Parts travel on a communicator of their own, which the team has for all of them, so that they never meet a message
 * of the program. The sender chooses their tags, and says so in a letter to the receiver when the request is made.
 * These letters are matched as the standard says: by communicator, source, tag, and their order. */
#ifndef RAMPART_PARTITIONS_H
#define RAMPART_PARTITIONS_H

#include "requests.h"

/* Whether the MPI has these functions. */
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_PARTITIONS 1
#else
#define HAS_PARTITIONS 0
#endif

/* Makes a request of so many parts, of so many elements each. */
MPI_Request begin_parts(bool is_receive, const void *buffer, int count, MPI_Count elements, MPI_Datatype type, int peer,
                        int tag, MPI_Comm comm);

/* A part is ready to be sent. */
int send_part(int part, MPI_Request handle);

/* Whether a part has come, which one replica decides; the program may read it then. */
int part_has_come(MPI_Request handle, int part, int *has_come);

/* The program starts such a request; it has ended if all parts have been sent, or have come. */
int start_parts(struct request *request);
bool parts_are_done(struct request *request);

/* Waits for all parts, and compares those that came. */
int end_parts(struct request *request);

/* Nobody needs the request any longer. */
void forget_parts(struct request *request);

/* Goes on with receives whose letter has come meanwhile. */
void advance_parts(void);

/* Whether there are receives whose letter has not come. */
bool await_letters(void);

#endif
