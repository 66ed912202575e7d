/* See tickets.h. */
#include "tickets.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"

/* Windows that share a table: a page of counters. */
#define PLACES 64

struct ticket_table {
    MPI_Comm comm;
    MPI_Win counters;
    uint64_t taken; /* places, a bit each */
    struct ticket_table *next; /* of the same communicator */
};
_Static_assert(PLACES == 8 * sizeof(uint64_t), "a bit each");

static struct ticket_table *new_table(MPI_Comm comm)
{
    struct ticket_table *table = calloc(1, sizeof *table);
    const MPI_Aint bytes = PLACES * TICKETS * sizeof(uint64_t);
    uint64_t *counters;
    if (!table)
        stop_job("no memory for a window");
    if (PMPI_Comm_dup(comm, &table->comm) != MPI_SUCCESS ||
        PMPI_Win_allocate(bytes, sizeof *counters, MPI_INFO_NULL, table->comm, &counters, &table->counters) !=
            MPI_SUCCESS)
        stop_job("the MPI has no room for the counters of another window");
    memset(counters, 0, (size_t)bytes);
    PMPI_Barrier(table->comm);
    PMPI_Win_lock_all(MPI_MODE_NOCHECK, table->counters);
    return table;
}

struct tickets take_tickets(struct shadow *shadow, MPI_Comm comm)
{
    struct ticket_table *table = shadow->tables;
    int place = 0;
    while (table && table->taken == UINT64_MAX)
        table = table->next;
    if (!table) {
        table = new_table(comm);
        table->next = shadow->tables;
        shadow->tables = table;
    }
    while (table->taken >> place & 1)
        place++;
    table->taken |= UINT64_C(1) << place;
    return (struct tickets){ .table = table, .place = place };
}

/* Counters stay as they are: when nobody has or waits for a lock or an access, the next window can go on with them. */
void give_tickets_back(struct shadow *shadow, const struct tickets *tickets)
{
    struct ticket_table *table = tickets->table, **link = &shadow->tables;
    table->taken &= ~(UINT64_C(1) << tickets->place);
    if (table->taken)
        return;
    while (*link != table)
        link = &(*link)->next;
    *link = table->next;
    PMPI_Win_unlock_all(table->counters);
    PMPI_Win_free(&table->counters);
    PMPI_Comm_free(&table->comm);
    free(table);
}

MPI_Comm comm_of_tickets(const struct tickets *tickets)
{
    return tickets->table->comm;
}

uint64_t add_to_ticket(const struct tickets *tickets, int target, enum ticket which, uint64_t amount)
{
    uint64_t before;
    MPI_Aint place = (MPI_Aint)tickets->place * TICKETS + which;
    PMPI_Fetch_and_op(&amount, &before, MPI_UINT64_T, target, place, amount ? MPI_SUM : MPI_NO_OP,
                      tickets->table->counters);
    PMPI_Win_flush(target, tickets->table->counters);
    return before;
}
