/* Probes: one replica looks, the others wait for the message that it saw [Fiala15, 3.3.3]. */
#ifndef RAMPART_PROBES_H
#define RAMPART_PROBES_H

#include <mpi.h>
#include <stdbool.h>

/* What the program asks for. */
struct probe {
    int source, tag;
    MPI_Comm comm;
    MPI_Message *message; /* taken off the MPI's list; null: it stays there */
    MPI_Status *status;   /* never ignored */
};

/* What the MPI says of a source or tag that no message can have; else MPI_SUCCESS. */
int error_of_probe(const struct probe *probe);

/* Whether there is such a message, which no receive of the program will take. */
bool probe(struct probe *probe, bool waits);

#endif
