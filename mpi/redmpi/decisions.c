/* See decisions.h. */
#include "decisions.h"

#include "events.h"
#include "history.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"

/* So many unsuccessful tests in a row are reported one by one; later ones in groups of so many, or more: there are so
 * many seconds between two groups. A program that does nothing else would fill the MPI's queue of a replica that does
 * not run at the moment. There, MPICH 4.0 with UCX completes accesses to its window before they are performed. */
#define TOLD_AT_ONCE 16
#define TOLD_TOGETHER 64
#define BETWEEN 1e-3

/* Decisions on their way. */
#define PLACES 64

static struct {
    /* Of the one who decides. */
    int in_vain, untold; /* tests since something was found; and those not told yet */
    double told; /* the time when some were told */
    struct decision places[PLACES];
    MPI_Request sends[PLACES][MOST_REPLICAS];
    unsigned next;
    /* Of the others. */
    struct decision arriving;
    MPI_Request receive;
    int vain_ones; /* that are still to be said */
    bool is_here;  /* `arriving` is the next one */
} stream = { .receive = MPI_REQUEST_NULL };

bool decides(void)
{
    return teams.replica == 0;
}

static void listen(void)
{
    PMPI_Irecv(&stream.arriving, sizeof stream.arriving, MPI_BYTE, 0, TAG_DECISION, teams.column, &stream.receive);
}

void begin_decisions(void)
{
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < MOST_REPLICAS; j++)
            stream.sends[i][j] = MPI_REQUEST_NULL;
    if (!decides())
        listen();
}

static void send_decision(const struct decision *decision)
{
    unsigned place = stream.next++ % PLACES;
    MPI_Request *sends = stream.sends[place];
    for (int i = 1; i < teams.replicas; i++)
        complete_alone(&sends[i]);
    stream.places[place] = *decision;
    for (int i = 1; i < teams.replicas; i++)
        PMPI_Isend(&stream.places[place], sizeof *decision, MPI_BYTE, i, TAG_DECISION, teams.column, &sends[i]);
}

void flush_decisions(void)
{
    if (!stream.untold)
        return;
    struct decision decision = { .kind = DECISION_NOTHING, .numbers = { stream.untold } };
    stream.untold = 0;
    stream.told = PMPI_Wtime();
    send_decision(&decision);
}

void tell_nothing(void)
{
    stream.untold++;
    if (++stream.in_vain <= TOLD_AT_ONCE ||
        (stream.untold >= TOLD_TOGETHER && PMPI_Wtime() - stream.told >= BETWEEN))
        flush_decisions();
}

void tell_decision(const struct decision *decision)
{
    flush_decisions();
    if (decision->kind != DECISION_RESOLVED) {
        stream.in_vain = 0;
        record_step(STEP_DECISION, decision->kind, 0, 0);
    }
    send_decision(decision);
}

static bool has_arrived(void)
{
    int is_there = stream.is_here;
    if (!is_there)
        PMPI_Test(&stream.receive, &is_there, MPI_STATUS_IGNORE);
    stream.is_here = is_there;
    return is_there;
}

/* Whether a decision has come that is not about receives. Those are carried out on the way, as far as the program has
 * posted them: the one who decides may be ahead. */
static bool has_come(void)
{
    while (has_arrived() && stream.arriving.kind == DECISION_RESOLVED) {
        struct decision decided = stream.arriving;
        if (!was_posted(decided.receive))
            return false;
        stream.is_here = false;
        listen();
        resolve_receive(decided.receive, decided.numbers[0], decided.numbers[1]);
    }
    return stream.is_here;
}

void look_for_decisions(void)
{
    has_come();
}

static _Noreturn void leave(void)
{
    leave_path("replica %d of rank %d does other things than replica 0: an error has changed what one of them does",
             teams.replica, teams.rank);
}

void must_hear(struct decision *decision)
{
    if (!hear_decision(decision))
        leave();
}

bool hear_decision(struct decision *decision)
{
    for (unsigned looks = 0; !stream.vain_ones && !has_come(); looks++)
        rest(looks);
    if (!stream.vain_ones) {
        if (stream.arriving.kind != decision->kind && stream.arriving.kind != DECISION_NOTHING)
            leave();
        *decision = stream.arriving;
        stream.is_here = false;
        if (decision->kind != DECISION_END)
            listen();
        if (decision->kind != DECISION_NOTHING) {
            record_step(STEP_DECISION, decision->kind, 0, 0);
            return true;
        }
        stream.vain_ones = decision->numbers[0];
    }
    stream.vain_ones--;
    return false;
}

bool decide(bool is_found, int *number)
{
    struct decision decision = { .kind = DECISION_FOUND, .numbers = { *number } };
    if (decides() && !is_found)
        tell_nothing();
    else if (decides())
        tell_decision(&decision);
    else
        is_found = hear_decision(&decision);
    *number = decision.numbers[0];
    return is_found;
}

void end_decisions(void)
{
    struct decision last = { .kind = DECISION_END };
    if (decides()) {
        tell_decision(&last);
        for (int i = 0; i < PLACES; i++)
            for (int j = 1; j < teams.replicas; j++)
                complete_alone(&stream.sends[i][j]);
        return;
    }
    must_hear(&last);
}
