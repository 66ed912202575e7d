/* See decisions.h. */
#include "decisions.h"

#include <stdlib.h>

#include "deaths.h"
#include "drops.h"
#include "events.h"
#include "hand_over.h"
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
    int first; /* the replica whose decisions are followed */
    struct succession followed;
    /* Of the one who decides. */
    int in_vain, untold; /* tests since something was found; and those not told yet */
    double told; /* the time when some were told */
    struct decision places[PLACES];
    MPI_Request sends[PLACES][MOST_REPLICAS];
    unsigned next;
    /* Since another one was dropped, of the one who decides. */
    bool is_taking; /* it waits for what others have followed */
    struct inheritance others[MOST_REPLICAS];
    /* Of the others. */
    struct decision *arriving;
    bool is_following; /* it carries out a decision: who decides does not change meanwhile */
    MPI_Request receive;
    int vain_ones; /* that are still to be said */
    bool is_here;  /* `arriving` is the next one */
} stream = { .receive = MPI_REQUEST_NULL };

bool leads(void)
{
    return teams.replica == stream.first && !stream.is_taking;
}

static bool hears(int replica)
{
    return others_left() >> replica & 1;
}

/* Another replica that has followed more than this one; -1 if there is none. */
static int ahead(void)
{
    return one_ahead(stream.others, others_left(), stream.followed.count);
}

/* It follows first what others have followed. */
static bool decides(void)
{
    return leads() && ahead() < 0;
}

static void listen(void)
{
    PMPI_Irecv(stream.arriving, sizeof *stream.arriving, MPI_BYTE, stream.first, TAG_DECISION, teams.column,
               &stream.receive);
}

/* What a receive that is given up may still write to stays. */
static void begin_listening(void)
{
    stream.arriving = malloc(sizeof *stream.arriving);
    if (!stream.arriving)
        stop_job("no memory for decisions");
    stream.is_here = false;
    stream.vain_ones = 0;
    if (teams.replica != stream.first)
        listen();
}

void begin_decisions(void)
{
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < MOST_REPLICAS; j++)
            stream.sends[i][j] = MPI_REQUEST_NULL;
    begin_listening();
}

/* Nobody waits for one that is dropped. */
static void complete_send(MPI_Request *send, int to)
{
    int is_done = 0;
    for (unsigned looks = 0; !is_done && *send != MPI_REQUEST_NULL; looks++) {
        if (is_out(to))
            PMPI_Request_free(send);
        else
            PMPI_Test(send, &is_done, MPI_STATUS_IGNORE);
        if (!is_done)
            rest(looks);
    }
}

/* Sends one that is the last of so many, to those that have not followed as many. */
static void send_decision(const struct decision *decision, uint64_t count)
{
    unsigned place = stream.next++ % PLACES;
    MPI_Request *sends = stream.sends[place];
    for (int i = 0; i < teams.replicas; i++)
        complete_send(&sends[i], i);
    stream.places[place] = *decision;
    for (int i = 0; i < teams.replicas; i++) {
        if (hears(i) && (decision->kind == DECISION_RESOLVED || count > stream.others[i].count))
            PMPI_Isend(&stream.places[place], sizeof *decision, MPI_BYTE, i, TAG_DECISION, teams.column, &sends[i]);
    }
}

void flush_decisions(void)
{
    if (!stream.untold)
        return;
    struct decision decision = { .kind = DECISION_NOTHING, .numbers = { stream.untold } };
    stream.untold = 0;
    stream.told = PMPI_Wtime();
    send_decision(&decision, stream.followed.count);
}

/* A decision is carried out. */
static void follow(const struct decision *decision)
{
    succession_follow(&stream.followed, decision);
    if (decision->kind != DECISION_NOTHING)
        record_step(STEP_DECISION, decision->kind, 0, 0);
    record_decision();
}

static void tell_nothing(void)
{
    follow(&(struct decision){ .kind = DECISION_NOTHING });
    stream.untold++;
    if (++stream.in_vain <= TOLD_AT_ONCE ||
        (stream.untold >= TOLD_TOGETHER && PMPI_Wtime() - stream.told >= BETWEEN))
        flush_decisions();
}

static void tell_decision(const struct decision *decision)
{
    flush_decisions();
    stream.in_vain = 0;
    follow(decision);
    send_decision(decision, stream.followed.count);
}

void tell_resolved(uint64_t receive, int source, int tag)
{
    flush_decisions();
    send_decision(&(struct decision){ .kind = DECISION_RESOLVED, .receive = receive, .numbers = { source, tag } }, 0);
}

void keep_resolved(uint64_t receive, int source, int tag)
{
    struct decision decision = { .kind = DECISION_RESOLVED, .receive = receive, .numbers = { source, tag } };
    succession_follow(&stream.followed, &decision);
}

bool was_resolved(uint64_t receive, int *source, int *tag)
{
    struct decision decision;
    for (int i = 0; i < teams.replicas; i++) {
        if (followed_receive(&stream.others[i], receive, &decision)) {
            *source = decision.numbers[0];
            *tag = decision.numbers[1];
            return true;
        }
    }
    return false;
}

static bool has_arrived(void)
{
    if (!stream.is_here && stream.receive != MPI_REQUEST_NULL)
        stream.is_here = has_ended(&stream.receive, stream.first, MPI_STATUS_IGNORE);
    return stream.is_here;
}

/* Whether a decision has come that is not about receives. Those are carried out on the way, as far as the program has
 * posted them: the one who decides may be ahead. */
static bool has_come(void)
{
    while (has_arrived() && stream.arriving->kind == DECISION_RESOLVED) {
        struct decision decided = *stream.arriving;
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
    if (teams.replica != stream.first)
        has_come();
}

/* Another one decides from now on. What was heard and not carried out never was. */
static void change_first(void)
{
    give_up(&stream.receive);
    stream.first = first_team();
    stream.untold = 0;
    stream.is_taking = teams.replica == stream.first;
    begin_listening();
    revoke_receives();
    if (stream.is_taking)
        return;
    struct followed *log = malloc(sizeof *log * MOST_FOLLOWED);
    if (!log)
        stop_job("no memory for decisions");
    struct inheritance followed = succession_copy(&stream.followed, log);
    hand_over(stream.first, &followed);
}

static _Noreturn void stop_far_behind(int replica)
{
    stop_job("replica %d of rank %d is too far behind to go on", replica, teams.rank);
}

/* Tells a replica what it has not followed yet, of what this one has. */
static void tell_missing(int to)
{
    const uint64_t known = stream.others[to].count;
    struct followed *log = malloc(sizeof *log * MOST_FOLLOWED);
    if (!log)
        stop_job("no memory for decisions");
    struct inheritance own = succession_copy(&stream.followed, log);
    if (own.first > known)
        stop_far_behind(to);
    for (int i = 0; i < own.used; i++) {
        MPI_Request request;
        if (!trim_to_missing(&log[i], known))
            continue;
        /* The log stays until it is sent, however long that takes. */
        PMPI_Isend(&log[i].decision, sizeof log[i].decision, MPI_BYTE, to, TAG_DECISION, teams.column, &request);
        PMPI_Request_free(&request);
    }
}

/* This one decides when it has heard how far all others are, and is as far as any of them. */
static void take_over(void)
{
    for (int i = 0; i < teams.replicas; i++) {
        if (hears(i) && !inherit(i, &stream.others[i]))
            return;
    }
    stream.is_taking = false;
    for (int i = 0; i < teams.replicas; i++) {
        if (!hears(i))
            continue;
        if (stream.others[i].first > stream.followed.count)
            stop_far_behind(teams.replica);
        tell_missing(i);
    }
    post_as_first();
}

void look_for_succession(void)
{
    if (!teams_out() || stream.is_following)
        return;
    if (stream.first != first_team())
        change_first();
    if (stream.is_taking)
        take_over();
}

/* Whether a decision is there to be followed. */
static bool find_decision(struct decision *decision)
{
    if (leads())
        return ahead() >= 0 && next_followed(&stream.others[ahead()], stream.followed.count, decision);
    if (teams.replica == stream.first)
        return false;
    if (!stream.vain_ones && !has_come())
        return false;
    *decision = stream.vain_ones ? (struct decision){ .kind = DECISION_NOTHING } : *stream.arriving;
    return true;
}

/* It was carried out, and the next one may come. */
static void pass_on(const struct decision *decision)
{
    if (teams.replica == stream.first) {
        send_decision(decision, stream.followed.count);
        return;
    }
    if (!stream.vain_ones) {
        stream.vain_ones = decision->kind == DECISION_NOTHING ? decision->numbers[0] : 0;
        stream.is_here = false;
        if (decision->kind != DECISION_END)
            listen();
    }
    stream.vain_ones -= decision->kind == DECISION_NOTHING;
}

static void leave(void)
{
    if (!may_drop())
        leave_path("replica %d of rank %d does other things than replica 0: an error has changed what one of them does",
                   teams.replica, teams.rank);
}

/* Whether the program can go on with this. If not, a replica has left the path: the vote finds which one. */
static bool can_follow(const struct choice *choice, const struct decision *decision)
{
    bool fits = decision->kind == (int)choice->kind || (decision->kind == DECISION_NOTHING && !choice->waits);
    if (!fits)
        leave();
    return fits && (decision->kind == DECISION_NOTHING || !choice->is_ready ||
                    choice->is_ready(choice->what, decision));
}

/* Carries out the next decision, if it is there and can be carried out. */
static bool try_to_follow(const struct choice *choice, struct decision *decision)
{
    stream.is_following = true;
    bool is_followed = find_decision(decision) && can_follow(choice, decision);
    if (is_followed) {
        expect_decision(-1, 0);
        follow(decision);
        pass_on(decision);
    }
    stream.is_following = false;
    return is_followed;
}

/* Waits until a decision is carried out; false if this replica decides meanwhile. */
static bool follow_next(const struct choice *choice, struct decision *decision)
{
    bool is_followed = false;
    flush_decisions();
    expect_decision(stream.first, (int)choice->kind);
    for (unsigned looks = 0; !is_followed && !decides(); looks++) {
        advance_receives();
        is_followed = try_to_follow(choice, decision);
        if (!is_followed)
            rest(looks);
        if (!is_followed)
            expect_decision(stream.first, (int)choice->kind);
    }
    expect_decision(-1, 0);
    return is_followed;
}

bool decide(const struct choice *choice, struct decision *decision)
{
    for (unsigned looks = 0;; looks++) {
        stay_in();
        look_for_succession();
        if (!decides()) {
            if (follow_next(choice, decision))
                return decision->kind != DECISION_NOTHING;
            continue;
        }
        *decision = (struct decision){ .kind = (int)choice->kind };
        if (choice->look(choice->what, decision)) {
            tell_decision(decision);
            return true;
        }
        if (!choice->waits) {
            tell_nothing();
            return false;
        }
        flush_decisions();
        rest(looks);
    }
}

static bool look_at_nothing(void *what, struct decision *decision)
{
    (void)what, (void)decision;
    return true;
}

void end_decisions(void)
{
    struct decision last;
    decide(&(struct choice){ .kind = DECISION_END, .waits = true, .look = look_at_nothing }, &last);
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < teams.replicas; j++)
            complete_send(&stream.sends[i][j], j);
}
