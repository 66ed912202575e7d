/* See connections.h. */
#include "connections.h"

#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "deaths.h"
#include "digest.h"
#include "drops.h"
#include "ending.h"
#include "events.h"
#include "hand_over.h"
#include "history.h"
#include "leaving.h"
#include "log.h"
#include "marks.h"
#include "paths.h"
#include "progress.h"
#include "requests.h"
#include "sockets.h"
#include "teams.h"
#include "waits.h"

/* Digests that are remembered. */
#define REMEMBERED 65536

/* How often it is looked whether this process goes on, and for how many looks it may stand still. */
#define LOOK_MS 1000
#define STILL_LOOKS 3

/* How often marks of what was received are brought to the lowest replica. */
#define MARKS_MS 200

/* Where each replica keeps what it receives, one that stands still ends the job after twice the looks after which it
 * heard that another one is ahead, and so many more. Where its team may be dropped, it has twice as long. */
#define MORE_LOOKS 4

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct agreement agreement;
    int peers[MOST_REPLICAS]; /* sockets; -1: none */
    int links[LINKS]; /* the same to other ranks of the team */
    int wake;
    const void *message; /* the one of the agreement, while it is here */
    size_t message_bytes;
    void *replacement;
    size_t replacement_bytes;
    bool is_sending, is_leaving, is_ending;
    struct paths paths;
    struct ending ending;
    bool keeps_all; /* nobody votes */
    struct tally tally;
} mine = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .wake = -1 };

/* With the lock held. */
static void lose(int replica)
{
    if (mine.peers[replica] < 0)
        return;
    if (!mine.is_leaving && !mine.ending.is_over)
        tell("lost %d at %lld", replica, event_time() - late_by(mine.peers[replica]));
    close(mine.peers[replica]);
    mine.peers[replica] = -1;
    agreement_lose(&mine.agreement, replica);
    lose_marks(replica);
    see_death(replica);
}

/* Sends what is to be sent. The lock is held, but not while a connection takes the bytes: the agreement waits until
 * they are sent before the message goes. */
static void send_all(void)
{
    struct notice notice;
    int to;
    mine.is_sending = true;
    while (agreement_say(&mine.agreement, &to, &notice)) {
        int socket = mine.peers[to];
        const void *message = mine.message;
        if (notice.kind == NOTICE_MESSAGE)
            notice.digest.bytes = mine.replacement ? mine.replacement_bytes : mine.message_bytes;
        if (socket < 0)
            continue;
        pthread_mutex_unlock(&mine.lock);
        bool is_sent = write_all(socket, &notice, sizeof notice) &&
                       (notice.kind != NOTICE_MESSAGE || write_all(socket, message, notice.digest.bytes));
        pthread_mutex_lock(&mine.lock);
        if (!is_sent)
            lose(to);
    }
    mine.is_sending = false;
    pthread_cond_broadcast(&mine.changed);
}

/* Looks since this process has begun no call; and so many of them when it heard that another replica is ahead, or 0.
 * The thread that answers uses them. */
static int still, still_when_behind;

/* Ends this process, and with it the job: the launcher sees to that. The MPI may not be called in this thread. */
static void end_here(int other, uint64_t step)
{
    tell("diverged replicas %d and %d of rank %d do different things from call %llu on: an error has changed what one "
         "of them does",
         teams.replica, other, teams.rank, (unsigned long long)step);
    end_process();
}

/* Whether this process has stood still for so many times the looks that it has. */
static bool is_overdue(int times)
{
    return still_when_behind && still > times * (2 * still_when_behind + MORE_LOOKS);
}

/* A replica that computes for ever is on the same path as one that has gone on. */
static void end_if_lost(void)
{
    if (!mine.keeps_all || !is_overdue(1))
        return;
    tell("diverged replica %d of rank %d stands still, and another one goes on: an error has changed what one of them "
         "does",
         teams.replica, teams.rank);
    end_process();
}

/* Without drops: another replica has said how far it is. If it is ahead, it learns in turn how far this one is. */
static void compare_paths(int other, const struct notice *notice)
{
    uint64_t mine_then, mine_now, steps = steps_done(&mine_now);
    if (steps_hash(notice->number, &mine_then)) {
        if (mine_then != notice->digest.low)
            end_here(other, notice->number);
    } else if (notice->number > steps && mine.peers[other] >= 0) {
        if (!still_when_behind)
            still_when_behind = still ? still : 1;
        struct notice own = { .kind = NOTICE_PATH, .number = steps, .digest = { .low = mine_now } };
        write_all(mine.peers[other], &own, sizeof own);
    }
}

/* To the other replicas of this rank. */
static void send_to_peers(const struct notice *notice)
{
    for (int i = 0; i < teams.replicas; i++) {
        if (mine.peers[i] >= 0)
            write_all(mine.peers[i], notice, sizeof *notice);
    }
}

/* To them, and to its two neighbours in the team. */
static void send_to_all(const struct notice *notice)
{
    send_to_peers(notice);
    for (int i = 0; i < LINKS; i++) {
        if (mine.links[i] >= 0)
            write_all(mine.links[i], notice, sizeof *notice);
    }
}

/* With the lock held: teams are dropped. All processes hear of it. */
static void drop_teams(uint32_t out)
{
    uint32_t news = leave_teams_out(out);
    if (!news)
        return;
    for (uint32_t left = news; left; left &= left - 1) {
        int team = __builtin_ctz(left);
        if (team != teams.replica)
            agreement_lose(&mine.agreement, team);
    }
    paths_leave_out(&mine.paths, news);
    send_to_all(&(struct notice){ .kind = NOTICE_OUT, .number = news });
    pthread_cond_broadcast(&mine.changed);
}

/* With the lock held: a vote has found that these replicas of this rank have left the path. */
static void drop_replicas(uint32_t out, const char *why)
{
    for (uint32_t left = out; left; left &= left - 1)
        tell("dropped %d at %lld %s", __builtin_ctz(left), event_time(), why);
    if (out)
        drop_teams(out);
    if (mine.paths.is_stopped) {
        tell("diverged all replicas of rank %d do different things: errors have changed what they do", teams.rank);
        end_process();
    }
}

/* With the lock held. Which process of its own team has died is said by the others of that rank. */
static void drop_dead(void)
{
    uint32_t dead = teams_with_dead(), own = UINT32_C(1) << teams.replica;
    if (mine.ending.is_over)
        return;
    if (dead & own)
        drop_teams(own);
    drop_replicas(dead & ~own, "it died");
}

static void send_paths(void)
{
    struct notice notice;
    int to;
    while (paths_say(&mine.paths, &to, &notice)) {
        if (mine.peers[to] >= 0)
            write_all(mine.peers[to], &notice, sizeof notice);
    }
}

static const char other_calls[] = "it made other calls than the others";

/* Another replica has said how far it is, or voted. */
static void hear_of_path(int from, const struct notice *notice)
{
    struct course course;
    find_course(&course);
    if (notice->kind == NOTICE_PATH && notice->number > course.now.steps && !still_when_behind)
        still_when_behind = still ? still : 1;
    drop_replicas(paths_hear(&mine.paths, from, notice, &course), other_calls);
    send_paths();
}

/* A replica that computes for ever, while another one has gone on. One that waits for a decision does not. */
static bool is_in_loop(const struct course *course)
{
    return is_overdue(2) && !is_waiting() && course->waits_for < 0;
}

/* With the lock held, from time to time. */
static void look_at_paths(void)
{
    struct course course;
    find_course(&course);
    if (is_out(teams.replica))
        return;
    if (still % STILL_LOOKS == 0)
        paths_report(&mine.paths, &course);
    drop_replicas(paths_go_on(&mine.paths, &course), other_calls);
    if (is_in_loop(&course) && live_teams() > 2)
        drop_replicas(UINT32_C(1) << teams.replica, "it computes for ever");
    send_paths();
}

/* Tells the others how far this process is. */
static void look_at_progress(void)
{
    static uint64_t before;
    struct notice own = { .kind = NOTICE_PATH };
    own.number = steps_done(&own.digest.low);
    still = own.number == before ? still + 1 : 0;
    still_when_behind = still ? still_when_behind : 0;
    before = own.number;
    pthread_mutex_lock(&mine.lock);
    if (may_drop()) {
        look_at_paths();
        drop_dead();
        stop_program();
        send_all();
    } else if (still >= STILL_LOOKS && still % STILL_LOOKS == 0) {
        send_to_peers(&own);
    }
    bool are_all_gone = true;
    for (int i = 0; i < teams.replicas; i++)
        are_all_gone &= mine.peers[i] < 0;
    pthread_mutex_unlock(&mine.lock);
    end_if_lost();
    /* The others of its rank close their connections when their teams have met at the end. */
    end_if_stuck(are_all_gone);
}

/* With the lock held: the job is over. Those that are dropped end, too. */
static void tell_over(void)
{
    send_to_all(&(struct notice){ .kind = NOTICE_OVER });
    end_sleep();
}

/* With the lock held: this replica has come to the end, or leaves before. The notice says how far that is. */
static void tell_end(enum notice_kind kind)
{
    struct course course;
    find_course(&course);
    struct notice own = { .kind = kind, .number = course.now.steps };
    own.digest = (struct digest){ .low = course.now.hash, .high = course.now.decisions };
    send_to_peers(&own);
}

static void send_ends(void)
{
    enum notice_kind kind;
    while (ending_say(&mine.ending, &kind)) {
        if (kind == NOTICE_OVER)
            tell_over();
        else
            tell_end(kind);
    }
}

/* News that concern all ranks. */
static void hear_news(const struct notice *notice)
{
    if (notice->kind == NOTICE_OUT)
        drop_teams((uint32_t)notice->number);
    if (notice->kind == NOTICE_OVER && ending_hear_over(&mine.ending))
        tell_over();
}

static void hear_link(int place)
{
    struct notice notice;
    bool is_read = read_all(mine.links[place], &notice, sizeof notice);
    pthread_mutex_lock(&mine.lock);
    if (!is_read) {
        close(mine.links[place]);
        mine.links[place] = -1;
        see_death(teams.replica);
    } else {
        hear_news(&notice);
        send_all();
    }
    pthread_mutex_unlock(&mine.lock);
}

/* Another replica has come to the end, or is about to leave before. */
static void hear_of_end(int from, const struct notice *notice)
{
    if (notice->kind == NOTICE_AT_END)
        ending_hear(&mine.ending, from);
    else
        ending_hear_leaving(&mine.ending, from, notice->digest.low);
    hear_of_path(from, &(struct notice){ .kind = NOTICE_PATH, .number = notice->number, .digest = notice->digest });
}

/* With the lock held: what is not of the agreement. False if it is. */
static bool hear_other(int from, const struct notice *notice)
{
    switch (notice->kind) {
    case NOTICE_PATH:
    case NOTICE_ASK_PATH:
    case NOTICE_VOTE:
        if (may_drop())
            hear_of_path(from, notice);
        else
            compare_paths(from, notice);
        return true;
    case NOTICE_OUT:
    case NOTICE_OVER:
        hear_news(notice);
        return true;
    case NOTICE_AT_END:
    case NOTICE_LEAVES:
        hear_of_end(from, notice);
        return true;
    default:
        return false;
    }
}

/* A notice has begun to arrive. */
static void hear(int from)
{
    struct notice notice;
    void *message = NULL;
    bool is_read = read_all(mine.peers[from], &notice, sizeof notice);
    if (is_read && notice.kind == NOTICE_MARKS)
        is_read = hear_marks(mine.peers, from, notice.number);
    if (is_read && notice.kind == NOTICE_TAKE)
        is_read = receive_log(mine.peers[from], from, &notice);
    if (is_read && notice.kind == NOTICE_COMPARED)
        free_entries(notice.number);
    if (is_read && notice.kind == NOTICE_MESSAGE) {
        message = malloc(notice.digest.bytes ? notice.digest.bytes : 1);
        if (!message)
            stop_job("no memory for a message of %llu bytes", (unsigned long long)notice.digest.bytes);
        is_read = read_all(mine.peers[from], message, notice.digest.bytes);
        notice.digest = digest_of(message, notice.digest.bytes);
    }
    pthread_mutex_lock(&mine.lock);
    if (!is_read) {
        lose(from);
    } else if (!hear_other(from, &notice)) {
        bool was = mine.agreement.is_replaced;
        agreement_hear(&mine.agreement, from, &notice);
        if (!was && mine.agreement.is_replaced) {
            mine.replacement = message;
            mine.replacement_bytes = notice.digest.bytes;
            mine.message = message;
            message = NULL;
        }
    }
    send_all();
    pthread_mutex_unlock(&mine.lock);
    free(message);
}

/* What is done from time to time. */
static void do_what_is_due(void)
{
    static int64_t looked, brought;
    if (is_due(&looked, LOOK_MS))
        look_at_progress();
    if (compares_later() && is_due(&brought, MARKS_MS))
        bring_marks(mine.peers);
}

static void *answer(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd waited[MOST_REPLICAS + 1 + LINKS] = { { .fd = mine.wake, .events = POLLIN } };
        const int others = teams.replicas + 1;
        pthread_mutex_lock(&mine.lock);
        bool is_over = mine.is_ending;
        for (int i = 0; i < teams.replicas; i++) {
            waited[i + 1] = (struct pollfd){ .fd = mine.peers[i], .events = POLLIN };
            is_over &= mine.peers[i] < 0;
        }
        for (int i = 0; i < LINKS; i++)
            waited[others + i] = (struct pollfd){ .fd = mine.links[i], .events = POLLIN };
        pthread_mutex_unlock(&mine.lock);
        if (is_over) {
            mine.tally.thread_ns = cpu_time(CLOCK_THREAD_CPUTIME_ID);
            return NULL;
        }
        int ready = poll(waited, (nfds_t)(others + LINKS), compares_later() ? MARKS_MS : LOOK_MS);
        look_at_wait();
        do_what_is_due();
        if (ready <= 0)
            continue;
        for (int i = 0; i < teams.replicas; i++) {
            if (waited[i + 1].revents)
                hear(i);
        }
        for (int i = 0; i < LINKS; i++) {
            if (waited[others + i].revents)
                hear_link(i);
        }
        if (waited[0].revents) {
            uint64_t count;
            ssize_t got = read(mine.wake, &count, sizeof count);
            (void)got;
            if (compares_later())
                bring_marks(mine.peers);
            pthread_mutex_lock(&mine.lock);
            send_log(mine.peers);
            send_ends();
            send_all();
            pthread_mutex_unlock(&mine.lock);
        }
    }
}

void wake_connections(void)
{
    uint64_t one = 1;
    ssize_t written = write(mine.wake, &one, sizeof one);
    (void)written;
}

bool job_is_over(void)
{
    pthread_mutex_lock(&mine.lock);
    bool is_over = mine.ending.is_over;
    pthread_mutex_unlock(&mine.lock);
    return is_over;
}

void begin_connections(void)
{
    static struct digest remembered[REMEMBERED];
    mine.keeps_all = keeps_all();
    agreement_begin(&mine.agreement, teams.replicas, teams.replica, remembered, REMEMBERED);
    begin_marks();
    paths_begin(&mine.paths, teams.replicas, teams.replica);
    connect_all(mine.peers, mine.links);
    mine.wake = eventfd(0, EFD_CLOEXEC);
    /* The program's signals are for its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&mine.thread, NULL, answer, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (mine.wake < 0 || failed)
        stop_job("no thread for the connections between replicas");
}

/* Waits until the agreement knows more. Meanwhile the MPI goes on: others may need what this process sends. */
static void wait_for_others(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (pthread_cond_timedwait(&mine.changed, &mine.lock, &until) != ETIMEDOUT && !is_out(teams.replica))
        return;
    pthread_mutex_unlock(&mine.lock);
    wait_on(0);
    let_mpi_go_on();
    pthread_mutex_lock(&mine.lock);
}

void meet_those_left(void)
{
    MPI_Request request;
    pthread_mutex_lock(&mine.lock);
    ending_come(&mine.ending);
    wake_connections();
    while (!ending_may_meet(&mine.ending, others_left(), mine.paths.step))
        wait_for_others();
    pthread_mutex_unlock(&mine.lock);
    stay_in();
    PMPI_Ibarrier(teams.team, &request);
    complete_alone(&request);
    pthread_mutex_lock(&mine.lock);
    ending_meet(&mine.ending);
    wake_connections();
    while (!mine.ending.is_over)
        wait_for_others();
    pthread_mutex_unlock(&mine.lock);
}

void leave_with_those_left(void)
{
    uint64_t path;
    steps_done(&path);
    pthread_mutex_lock(&mine.lock);
    ending_leave(&mine.ending, path);
    wake_connections();
    while (!ending_may_leave(&mine.ending, others_left()))
        wait_for_others();
    pthread_mutex_unlock(&mine.lock);
    stay_in();
}

void leave_connections(void)
{
    pthread_mutex_lock(&mine.lock);
    mine.is_leaving = true;
    pthread_mutex_unlock(&mine.lock);
}

void end_connections(void)
{
    pthread_mutex_lock(&mine.lock);
    mine.is_ending = true;
    for (int i = 0; i < teams.replicas; i++) {
        if (mine.peers[i] >= 0)
            shutdown(mine.peers[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&mine.lock);
    wake_connections();
    pthread_join(mine.thread, NULL);
    close(mine.wake);
}

/* Without a vote: this replica keeps what it has. */
static struct verdict see_difference(const struct digest *digest, const struct digest *others, int count)
{
    struct verdict verdict = { .number = ++mine.tally.compared };
    for (int i = 0; i < count; i++)
        verdict.differed |= !same_digest(digest, &others[i]);
    mine.tally.differed += verdict.differed;
    note_progress(mine.tally.compared, mine.tally.replaced);
    return verdict;
}

struct verdict agree(const void *message, const struct digest *digest, const struct digest *others, const int of[],
                     int count)
{
    if (mine.keeps_all)
        return see_difference(digest, others, count);
    struct verdict verdict = { .is_accepted = true };
    struct agreement *agreement = &mine.agreement;
    pthread_mutex_lock(&mine.lock);
    mine.message = message;
    mine.message_bytes = digest->bytes;
    agreement_compare(agreement, digest, others, of, count);
    mine.tally.compared++;
    if (agreement->outs)
        wake_connections();
    while (agreement->state == AGREEMENT_WAITS || agreement->outs || mine.is_sending)
        wait_for_others();
    if (agreement->is_voting && (agreement_differs(agreement) || agreement->state == AGREEMENT_STOPPED)) {
        verdict.differed = true;
        verdict.is_accepted = agreement->state == AGREEMENT_ACCEPTED;
        verdict.number = mine.tally.compared;
        verdict.wrong = agreement_wrong(agreement);
        verdict.replacement = mine.replacement;
        verdict.bytes = mine.replacement_bytes;
        mine.tally.differed++;
        mine.tally.replaced += mine.replacement != NULL;
        mine.replacement = NULL;
    }
    note_progress(mine.tally.compared, mine.tally.replaced);
    agreement_hand_over(agreement);
    mine.message = NULL;
    pthread_mutex_unlock(&mine.lock);
    return verdict;
}

static void replace(struct verdict *verdict, const struct copy *right)
{
    verdict->is_accepted = right->data != NULL;
    if (!right->data)
        return;
    verdict->bytes = right->bytes;
    verdict->replacement = malloc(right->bytes ? right->bytes : 1);
    if (!verdict->replacement)
        stop_job("no memory for a message of %zu bytes", right->bytes);
    memcpy(verdict->replacement, right->data, right->bytes);
    mine.tally.replaced++;
}

struct verdict take_majority(const struct copy copies[], const int of[], int count)
{
    struct verdict verdict = { .number = ++mine.tally.compared };
    int right = mine.keeps_all ? -1 : majority_of(copies, count);
    verdict.is_accepted = right == 0;
    for (int i = 0; i < count; i++) {
        verdict.differed |= !same_copy(&copies[0], &copies[i]);
        if (right >= 0 && !same_copy(&copies[right], &copies[i]))
            verdict.wrong |= UINT32_C(1) << of[i];
    }
    mine.tally.differed += verdict.differed;
    if (right > 0)
        replace(&verdict, &copies[right]);
    note_progress(mine.tally.compared, mine.tally.replaced);
    return verdict;
}

struct tally connections_tally(void)
{
    struct tally tally = mine.tally;
    tally.compared += logged();
    tally.differed += marks_differed();
    return tally;
}
