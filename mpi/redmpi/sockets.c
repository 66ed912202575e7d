/* See sockets.h. */
#include "sockets.h"

#include <errno.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drops.h"
#include "events.h"
#include "requests.h"
#include "teams.h"

/* Addresses of a machine that are tried, and how long each. */
#define ADDRESSES 8
#define CONNECT_SECONDS 5

/* The kernel keeps time in ticks of up to 10 ms. */
#define TICK_MS 10

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
    int32_t rank, replica, is_of_ring;
};

static int listener = -1;

/* The last segment of one that was closed has an acknowledgement, the time of which the kernel keeps (TCP_INFO). A
 * connection that was reset has none. */
long long late_by(int connection)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) || info.tcpi_state != TCP_CLOSE_WAIT ||
        info.tcpi_last_ack_recv <= TICK_MS)
        return 0;
    return 1000LL * info.tcpi_last_ack_recv;
}

bool write_all(int to, const void *data, size_t bytes)
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

bool read_all(int from, void *data, size_t bytes)
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
    listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        stop_job("no socket for the connections between replicas: %s", strerror(errno));
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, MOST_REPLICAS) ||
        getsockname(listener, (struct sockaddr *)&own, &length))
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

/* What this process listens with, and whom it has. */
struct own {
    struct place place;
    int *peers, *links;
};

static void keep_connection(int *where, int connection)
{
    int yes = 1;
    wait_so_long(connection, 0);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    *where = connection;
}

/* Where a connection of another process belongs; null if it is none of ours. */
static int *place_of(const struct own *own, const struct hello *hello)
{
    int *where = NULL;
    if (hello->secret != own->place.secret || hello->replica < 0 || hello->replica >= teams.replicas)
        return NULL;
    if (hello->is_of_ring && hello->replica == teams.replica &&
        hello->rank == (teams.rank + teams.ranks - 1) % teams.ranks)
        where = &own->links[LINK_BEFORE];
    if (!hello->is_of_ring && hello->rank == teams.rank && hello->replica > teams.replica)
        where = &own->peers[hello->replica];
    return where && *where < 0 ? where : NULL;
}

/* Others connect to this process in any order. */
static void accept_one(const struct own *own)
{
    struct hello hello;
    struct pollfd waited = { .fd = listener, .events = POLLIN };
    if (poll(&waited, 1, 1000 * CONNECT_SECONDS * ADDRESSES) == 0)
        stop_job("replica %d of rank %d: others do not connect; is there a firewall between the nodes?", teams.replica,
                 teams.rank);
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0)
        return;
    wait_so_long(connection, CONNECT_SECONDS);
    int *where = read_all(connection, &hello, sizeof hello) ? place_of(own, &hello) : NULL;
    if (where && write_all(connection, &hello.secret, sizeof hello.secret))
        keep_connection(where, connection);
    else
        close(connection);
}

static void connect_one(const struct place *place, bool is_of_ring, int *where)
{
    struct hello hello = {
        .secret = place->secret, .rank = teams.rank, .replica = teams.replica, .is_of_ring = is_of_ring
    };
    int connection = connect_to(place, &hello);
    if (connection < 0)
        stop_job("replica %d of rank %d cannot connect to another process; is there a firewall between the nodes?",
                 teams.replica, teams.rank);
    keep_connection(where, connection);
}

/* The replicas after this one connect to it. */
static void connect_replicas(const struct own *own)
{
    struct place places[MOST_REPLICAS];
    MPI_Request request;
    PMPI_Iallgather(&own->place, sizeof *places, MPI_BYTE, places, sizeof *places, MPI_BYTE, teams.column, &request);
    complete_alone(&request);
    for (int i = 0; i < teams.replica; i++)
        connect_one(&places[i], false, &own->peers[i]);
    for (int i = teams.replica + 1; i < teams.replicas; i++) {
        while (own->peers[i] < 0)
            accept_one(own);
    }
}

/* Each connects to the next rank. Of two neighbours, one accepts first: nobody waits in a circle. */
static void connect_ring(const struct own *own)
{
    const int next = (teams.rank + 1) % teams.ranks, before = (teams.rank + teams.ranks - 1) % teams.ranks;
    struct place place;
    MPI_Request request;
    PMPI_Irecv(&place, sizeof place, MPI_BYTE, next, 0, teams.team, &request);
    PMPI_Send(&own->place, sizeof place, MPI_BYTE, before, 0, teams.team);
    complete_alone(&request);
    if (teams.rank % 2 == 0)
        connect_one(&place, true, &own->links[LINK_AFTER]);
    while (own->links[LINK_BEFORE] < 0)
        accept_one(own);
    if (teams.rank % 2)
        connect_one(&place, true, &own->links[LINK_AFTER]);
}

void connect_all(int peers[MOST_REPLICAS], int links[LINKS])
{
    struct own own = { .place = { .port = begin_listening() }, .peers = peers, .links = links };
    for (int i = 0; i < MOST_REPLICAS; i++)
        peers[i] = -1;
    links[LINK_BEFORE] = links[LINK_AFTER] = -1;
    if (getrandom(&own.place.secret, sizeof own.place.secret, 0) != sizeof own.place.secret)
        stop_job("no random number: %s", strerror(errno));
    find_addresses(&own.place);
    connect_replicas(&own);
    if (may_drop() && teams.ranks > 1)
        connect_ring(&own);
    close(listener);
}
