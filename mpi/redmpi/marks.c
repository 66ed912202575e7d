/* See marks.h. */
#include "marks.h"

#include "agreement.h"
#include "comparison.h"
#include "decisions.h"
#include "events.h"
#include "log.h"
#include "sockets.h"
#include "teams.h"

/* At a time. */
#define MARKS 1024

/* The thread of the connections does not read the environment, which the program may change. */
static struct {
    struct comparison comparison; /* of the lowest replica */
    bool goes_on;                 /* where replicas differ */
    uint64_t differed;
} marks;

void begin_marks(void)
{
    static struct mark room[MOST_REPLICAS * LOG_PLACES];
    marks.goes_on = goes_on();
    comparison_begin(&marks.comparison, teams.replicas, room, LOG_PLACES);
}

void lose_marks(int replica)
{
    comparison_lose(&marks.comparison, replica);
}

uint64_t marks_differed(void)
{
    return marks.differed;
}

/* What the program received was not the same in all replicas. */
static void see_entry(uint64_t number, uint32_t wrong)
{
    marks.differed++;
    report_entry(number, wrong);
    if (marks.goes_on)
        return;
    tell("stopped replicas have received different things, and the program has them already");
    end_process();
}

/* Compares what has come of all replicas, and lets them forget it. Of the lowest one. */
static void compare_marks(const int peers[])
{
    static struct mark own[MARKS];
    struct comparison *comparison = &marks.comparison;
    uint64_t count, before = comparison->compared;
    enum comparison_result result;
    uint32_t wrong;
    while ((count = next_marks(own, MARKS)))
        comparison_take(comparison, teams.replica, own, count);
    while ((result = comparison_go_on(comparison, &wrong)) == COMPARISON_DIFFERS)
        see_entry(comparison->compared, wrong);
    if (result == COMPARISON_PARTED) {
        tell("diverged replicas of rank %d do different things before message %llu: an error has changed what one of "
             "them does",
             teams.rank, (unsigned long long)comparison->compared);
        end_process();
    }
    struct notice notice = { .kind = NOTICE_COMPARED, .number = comparison->compared };
    for (int i = 0; i < teams.replicas && comparison->compared != before; i++) {
        if (peers[i] >= 0)
            write_all(peers[i], &notice, sizeof notice);
    }
    free_entries(comparison->compared);
}

void bring_marks(const int peers[])
{
    static struct {
        struct notice notice;
        struct mark marks[MARKS];
    } batch = { .notice = { .kind = NOTICE_MARKS } };
    if (leads()) {
        compare_marks(peers);
        return;
    }
    while (peers[0] >= 0 && (batch.notice.number = next_marks(batch.marks, MARKS)))
        write_all(peers[0], &batch, sizeof batch.notice + sizeof *batch.marks * batch.notice.number);
}

bool hear_marks(const int peers[], int from, uint64_t count)
{
    static struct mark theirs[MARKS];
    if (count > MARKS || !read_all(peers[from], theirs, sizeof *theirs * count) ||
        !comparison_take(&marks.comparison, from, theirs, count))
        return false;
    compare_marks(peers);
    return true;
}
