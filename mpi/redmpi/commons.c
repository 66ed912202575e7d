/* See commons.h. */
#include "commons.h"

#include <stdint.h>

#include "requests.h"

static MPI_Comm commons[COMMONS];
static uint64_t all_taken;

/* What members of a communicator have taken, on its way to all of them. */
struct wish {
    MPI_Comm comm;
    int is_between; /* two groups: each gets first what the other one has taken */
    bool is_second;
    uint64_t taken, by_others;
    MPI_Request request;
};

static struct wish of_idup = { .request = MPI_REQUEST_NULL };

void begin_commons(void)
{
    for (int i = 0; i < COMMONS; i++) {
        duplicate_alone(MPI_COMM_WORLD, &commons[i]);
        /* A copy that is longer than the receiver expects is an error of its sender, and is voted on. */
        PMPI_Comm_set_errhandler(commons[i], MPI_ERRORS_RETURN);
    }
}

void end_commons(void)
{
    for (int i = 0; i < COMMONS; i++)
        PMPI_Comm_free(&commons[i]);
}

MPI_Comm common_at(int place)
{
    return commons[place];
}

void return_common(int place)
{
    all_taken &= ~(UINT64_C(1) << place);
}

static bool ask(struct wish *wish)
{
    return PMPI_Iallreduce(&wish->taken, &wish->by_others, 1, MPI_UINT64_T, MPI_BOR, wish->comm, &wish->request) ==
           MPI_SUCCESS;
}

static bool begin_wish(struct wish *wish, MPI_Comm comm)
{
    *wish = (struct wish){ .comm = comm, .taken = all_taken, .request = MPI_REQUEST_NULL };
    PMPI_Comm_test_inter(comm, &wish->is_between);
    return ask(wish);
}

/* Whether it is known what all members have taken: `taken` then. */
static bool is_answered(struct wish *wish)
{
    int is_here;
    PMPI_Test(&wish->request, &is_here, MPI_STATUS_IGNORE);
    if (!is_here)
        return false;
    wish->taken |= wish->by_others;
    if (!wish->is_between || wish->is_second)
        return true;
    wish->is_second = true;
    return !ask(wish);
}

static int take_between(uint64_t taken, int first, int end)
{
    while (first < end && taken >> first & 1)
        first++;
    if (first == end)
        return -1;
    all_taken |= UINT64_C(1) << first;
    return first;
}

int take_common(MPI_Comm comm)
{
    struct wish wish;
    if (!begin_wish(&wish, comm))
        return -1;
    do
        complete(&wish.request, MPI_STATUS_IGNORE);
    while (!is_answered(&wish));
    return take_between(wish.taken, COMMONS_OF_IDUP, COMMONS);
}

/* An earlier wish may take what this one must not: its owner sees it fulfilled when it looks. */
void wish_common(MPI_Comm comm)
{
    begin_wish(&of_idup, comm);
}

bool get_wish(int *place)
{
    if (!is_answered(&of_idup))
        return false;
    *place = take_between(of_idup.taken, 0, COMMONS_OF_IDUP);
    return true;
}
