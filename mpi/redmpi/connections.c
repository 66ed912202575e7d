/* See connections.h. */
#include "connections.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "decisions.h"
#include "digest.h"
#include "events.h"
#include "history.h"
#include "log.h"
#include "progress.h"
#include "receives.h"
#include "requests.h"
#include "teams.h"
#include "waits.h"

/* Digests that are remembered, addresses of a machine that are tried, and how long each. */
#define REMEMBERED 65536
#define ADDRESSES 8
#define CONNECT_SECONDS 5

/* How often it is looked whether this process goes on, and for how many looks it may stand still. */
#define LOOK_MS 1000
#define STILL_LOOKS 3

/* How often marks of what was received are brought to the lowest replica, and how many at a time. */
#define MARKS_MS 200
#define MARKS 1024

/* Where each replica keeps what it receives, one that stands still ends the job after twice the looks after which it
 * heard that another one is ahead, and so many more. */
#define MORE_LOOKS 4

/* Where a process can be reached. */
struct place {
    uint16_t port;
    uint16_t count;
    struct in6_addr addresses[ADDRESSES]; /* IPv4 ones are mapped */
    uint64_t secret;
};

/* The first bytes on a connection. */
struct hello {
    uint64_t secret;
    int32_t rank, replica;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct agreement agreement;
    int peers[MOST_REPLICAS]; /* sockets; -1: none */
    int listener, wake;
    const void *message; /* the one of the agreement, while it is here */
    size_t message_bytes;
    void *replacement;
    size_t replacement_bytes;
    bool is_sending, is_leaving, is_ending;
    bool keeps_all; /* nobody votes */
    bool goes_on;   /* where replicas differ; the thread does not read the environment, which the program may change */
    struct comparison comparison; /* of the lowest replica */
    struct tally tally;
} mine = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .listener = -1, .wake = -1 };

static bool write_all(int to, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes) {
        ssize_t written = send(to, next, bytes, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        next += written;
        bytes -= (size_t)written;
    }
    return true;
}

static bool read_all(int from, void *data, size_t bytes)
{
    char *next = data;
    while (bytes) {
        ssize_t got = recv(from, next, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* With the lock held. */
static void lose(int replica)
{
    if (mine.peers[replica] < 0)
        return;
    close(mine.peers[replica]);
    mine.peers[replica] = -1;
    if (!mine.is_leaving)
        tell("lost %d at %lld", replica, event_time());
    agreement_lose(&mine.agreement, replica);
    comparison_lose(&mine.comparison, replica);
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
    _exit(STOPPED);
}

/* A replica that computes for ever is on the same path as one that has gone on. */
static void end_if_lost(void)
{
    if (!mine.keeps_all || !still_when_behind || still <= 2 * still_when_behind + MORE_LOOKS)
        return;
    tell("diverged replica %d of rank %d stands still, and another one goes on: an error has changed what one of them "
         "does",
         teams.replica, teams.rank);
    _exit(STOPPED);
}

/* Another replica has said how far it is. If it is ahead, it learns in turn how far this one is. */
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

/* Tells the others how far this process is when it stands still. */
static void look_at_progress(void)
{
    static uint64_t before;
    struct notice own = { .kind = NOTICE_PATH };
    own.number = steps_done(&own.digest.low);
    still = own.number == before ? still + 1 : 0;
    still_when_behind = still ? still_when_behind : 0;
    before = own.number;
    end_if_lost();
    if (still < STILL_LOOKS || still % STILL_LOOKS)
        return;
    pthread_mutex_lock(&mine.lock);
    for (int i = 0; i < teams.replicas; i++) {
        if (mine.peers[i] >= 0)
            write_all(mine.peers[i], &own, sizeof own);
    }
    pthread_mutex_unlock(&mine.lock);
}

/* What the program received was not the same in all replicas. */
static void see_entry(uint64_t number, uint32_t wrong)
{
    mine.tally.differed++;
    report_entry(number, wrong);
    if (mine.goes_on)
        return;
    tell("stopped replicas have received different things, and the program has them already");
    _exit(STOPPED);
}

/* Compares what has come of all replicas, and lets them forget it. Of the lowest one. */
static void compare_marks(void)
{
    static struct mark own[MARKS];
    struct comparison *comparison = &mine.comparison;
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
        _exit(STOPPED);
    }
    struct notice notice = { .kind = NOTICE_COMPARED, .number = comparison->compared };
    for (int i = 0; i < teams.replicas && comparison->compared != before; i++) {
        if (mine.peers[i] >= 0)
            write_all(mine.peers[i], &notice, sizeof notice);
    }
    free_entries(comparison->compared);
}

/* Brings marks to the lowest replica, which compares them. */
static void bring_marks(void)
{
    static struct {
        struct notice notice;
        struct mark marks[MARKS];
    } batch = { .notice = { .kind = NOTICE_MARKS } };
    if (decides()) {
        compare_marks();
        return;
    }
    while (mine.peers[0] >= 0 && (batch.notice.number = next_marks(batch.marks, MARKS)))
        write_all(mine.peers[0], &batch, sizeof batch.notice + sizeof *batch.marks * batch.notice.number);
}

/* Marks of another replica have begun to arrive. */
static bool hear_marks(int from, uint64_t count)
{
    static struct mark marks[MARKS];
    if (count > MARKS || !read_all(mine.peers[from], marks, sizeof *marks * count) ||
        !comparison_take(&mine.comparison, from, marks, count))
        return false;
    compare_marks();
    return true;
}

/* A notice has begun to arrive. */
static void hear(int from)
{
    struct notice notice;
    void *message = NULL;
    bool is_read = read_all(mine.peers[from], &notice, sizeof notice);
    if (is_read && notice.kind == NOTICE_MARKS)
        is_read = hear_marks(from, notice.number);
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
    } else if (notice.kind == NOTICE_PATH) {
        compare_paths(from, &notice);
    } else {
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

/* Whether so much time has passed since it was so the last time. */
static bool is_due(int64_t *last, int64_t every)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t now = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    if (now - *last < every)
        return false;
    *last = now;
    return true;
}

/* What is done from time to time. */
static void do_what_is_due(void)
{
    static int64_t looked, brought;
    if (is_due(&looked, LOOK_MS))
        look_at_progress();
    if (compares_later() && is_due(&brought, MARKS_MS))
        bring_marks();
}

static void *answer(void *unused)
{
    (void)unused;
    for (;;) {
        struct pollfd waited[MOST_REPLICAS + 1] = { { .fd = mine.wake, .events = POLLIN } };
        pthread_mutex_lock(&mine.lock);
        bool is_over = mine.is_ending;
        for (int i = 0; i < teams.replicas; i++) {
            waited[i + 1] = (struct pollfd){ .fd = mine.peers[i], .events = POLLIN };
            is_over &= mine.peers[i] < 0;
        }
        pthread_mutex_unlock(&mine.lock);
        if (is_over) {
            mine.tally.thread_ns = cpu_time(CLOCK_THREAD_CPUTIME_ID);
            return NULL;
        }
        int ready = poll(waited, (nfds_t)teams.replicas + 1, compares_later() ? MARKS_MS : LOOK_MS);
        look_at_wait();
        do_what_is_due();
        if (ready <= 0)
            continue;
        for (int i = 0; i < teams.replicas; i++) {
            if (waited[i + 1].revents)
                hear(i);
        }
        if (waited[0].revents) {
            uint64_t count;
            ssize_t got = read(mine.wake, &count, sizeof count);
            (void)got;
            if (compares_later())
                bring_marks();
            pthread_mutex_lock(&mine.lock);
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

/* The addresses of this machine; those of its own loop last. */
static void find_addresses(struct place *place)
{
    struct ifaddrs *all;
    if (getifaddrs(&all))
        return;
    for (int loops = 0; loops < 2; loops++) {
        for (struct ifaddrs *one = all; one && place->count < ADDRESSES; one = one->ifa_next) {
            bool is_loop = one->ifa_flags & IFF_LOOPBACK;
            struct in6_addr *to = &place->addresses[place->count];
            if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || is_loop != loops)
                continue;
            if (one->ifa_addr->sa_family == AF_INET) {
                memset(to, 0, 10);
                memset(to->s6_addr + 10, 0xff, 2);
                memcpy(to->s6_addr + 12, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, 4);
                place->count++;
            } else if (one->ifa_addr->sa_family == AF_INET6 &&
                       !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr)) {
                *to = ((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr;
                place->count++;
            }
        }
    }
    freeifaddrs(all);
}

/* Listens on a port of its own, on all addresses. */
static uint16_t begin_listening(void)
{
    struct sockaddr_in6 own = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
    socklen_t length = sizeof own;
    int no = 0;
    mine.listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (mine.listener < 0)
        stop_job("no socket for the connections between replicas: %s", strerror(errno));
    setsockopt(mine.listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(mine.listener, (struct sockaddr *)&own, sizeof own) || listen(mine.listener, MOST_REPLICAS) ||
        getsockname(mine.listener, (struct sockaddr *)&own, &length))
        stop_job("no port for the connections between replicas: %s", strerror(errno));
    return own.sin6_port;
}

/* Whether the process at the other end is the one that is meant: several nodes may have the same address. */
static bool is_meant(int connection, const struct hello *hello)
{
    uint64_t answer;
    return write_all(connection, hello, sizeof *hello) && read_all(connection, &answer, sizeof answer) &&
           answer == hello->secret;
}

static void wait_so_long(int connection, int seconds)
{
    struct timeval patience = { .tv_sec = seconds };
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

/* A connection to one of these addresses; -1 if none answers. */
static int connect_to(const struct place *place, const struct hello *hello)
{
    for (int i = 0; i < place->count; i++) {
        struct sockaddr_in6 to = { .sin6_family = AF_INET6,
                                   .sin6_port = place->port,
                                   .sin6_addr = place->addresses[i] };
        int one = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        wait_so_long(one, CONNECT_SECONDS);
        if (one >= 0 && !connect(one, (struct sockaddr *)&to, sizeof to) && is_meant(one, hello)) {
            wait_so_long(one, 0);
            return one;
        }
        if (one >= 0)
            close(one);
    }
    return -1;
}

static void keep_connection(int replica, int connection)
{
    int yes = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    mine.peers[replica] = connection;
}

/* The replicas after this one connect to it. */
static void accept_others(const struct place *own)
{
    for (int missing = teams.replicas - 1 - teams.replica; missing;) {
        struct hello hello;
        struct pollfd waited = { .fd = mine.listener, .events = POLLIN };
        if (poll(&waited, 1, 1000 * CONNECT_SECONDS * ADDRESSES) == 0)
            stop_job("replica %d of rank %d: %d others do not connect; is there a firewall between the nodes?",
                     teams.replica, teams.rank, missing);
        int connection = accept4(mine.listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            continue;
        wait_so_long(connection, CONNECT_SECONDS);
        bool is_one = read_all(connection, &hello, sizeof hello) && hello.secret == own->secret &&
                      hello.rank == teams.rank && hello.replica > teams.replica && hello.replica < teams.replicas &&
                      mine.peers[hello.replica] < 0 && write_all(connection, &own->secret, sizeof own->secret);
        if (!is_one) {
            close(connection);
            continue;
        }
        wait_so_long(connection, 0);
        keep_connection(hello.replica, connection);
        missing--;
    }
}

static void connect_replicas(void)
{
    struct place own = { .port = begin_listening() }, places[MOST_REPLICAS];
    if (getrandom(&own.secret, sizeof own.secret, 0) != sizeof own.secret)
        stop_job("no random number: %s", strerror(errno));
    find_addresses(&own);
    PMPI_Allgather(&own, sizeof own, MPI_BYTE, places, sizeof own, MPI_BYTE, teams.column);
    for (int i = 0; i < teams.replica; i++) {
        struct hello hello = { .secret = places[i].secret, .rank = teams.rank, .replica = teams.replica };
        int connection = connect_to(&places[i], &hello);
        if (connection < 0)
            stop_job("replica %d of rank %d cannot connect to replica %d; is there a firewall between the nodes?",
                     teams.replica, teams.rank, i);
        keep_connection(i, connection);
    }
    accept_others(&own);
    close(mine.listener);
}

void begin_connections(void)
{
    static struct digest remembered[REMEMBERED];
    static struct mark marks[MOST_REPLICAS * LOG_PLACES];
    for (int i = 0; i < MOST_REPLICAS; i++)
        mine.peers[i] = -1;
    mine.keeps_all = keeps_all();
    mine.goes_on = goes_on();
    agreement_begin(&mine.agreement, teams.replicas, teams.replica, remembered, REMEMBERED);
    comparison_begin(&mine.comparison, teams.replicas, marks, LOG_PLACES);
    connect_replicas();
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

/* A replica that has left the path may come to the end, too. */
static void compare_ends(void)
{
    uint64_t own[3] = { [2] = logged() }, all[MOST_REPLICAS][3];
    own[0] = steps_done(&own[1]);
    PMPI_Allgather(own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, teams.column);
    for (int i = 0; i < teams.replicas; i++) {
        if (memcmp(all[i], own, sizeof own))
            leave_path("replicas %d and %d of rank %d do different things until they end: an error has changed what "
                       "one of them does",
                       teams.replica, i, teams.rank);
    }
}

static void wait_for_replicas(void)
{
    MPI_Request request;
    PMPI_Ibarrier(teams.column, &request);
    complete_alone(&request);
}

void end_connections(void)
{
    pthread_mutex_lock(&mine.lock);
    mine.is_leaving = true;
    pthread_mutex_unlock(&mine.lock);
    wait_for_replicas();
    compare_ends();
    finish_log();
    wait_for_replicas();
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
    if (pthread_cond_timedwait(&mine.changed, &mine.lock, &until) != ETIMEDOUT)
        return;
    pthread_mutex_unlock(&mine.lock);
    int unused;
    flush_decisions();
    advance_receives();
    PMPI_Iprobe(MPI_ANY_SOURCE, TAG_NONE, teams.column, &unused, MPI_STATUS_IGNORE);
    pthread_mutex_lock(&mine.lock);
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

struct verdict agree(const void *message, const struct digest *digest, const struct digest *others, int count)
{
    if (mine.keeps_all)
        return see_difference(digest, others, count);
    struct verdict verdict = { .is_accepted = true };
    struct agreement *agreement = &mine.agreement;
    pthread_mutex_lock(&mine.lock);
    mine.message = message;
    mine.message_bytes = digest->bytes;
    agreement_compare(agreement, digest, others, count);
    mine.tally.compared++;
    if (agreement->outs)
        wake_connections();
    while (agreement->state == AGREEMENT_WAITS || agreement->outs || mine.is_sending)
        wait_for_others();
    if (agreement->is_voting) {
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

struct verdict take_majority(const struct copy copies[], int count)
{
    struct verdict verdict = { .number = ++mine.tally.compared };
    int right = mine.keeps_all ? -1 : majority_of(copies, count);
    verdict.is_accepted = right == 0;
    for (int i = 0; i < count; i++) {
        verdict.differed |= !same_copy(&copies[0], &copies[i]);
        if (right >= 0 && !same_copy(&copies[right], &copies[i]))
            verdict.wrong |= UINT32_C(1) << team_before(i);
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
    return tally;
}
