/* See hand_over.h. */
#include "hand_over.h"

#include <pthread.h>
#include <stdlib.h>

#include "connections.h"
#include "events.h"
#include "sockets.h"

static struct {
    pthread_mutex_t lock;
    struct inheritance others[MOST_REPLICAS], own; /* without a log: there is none */
    int to; /* the own one is to be sent */
} logs = { .lock = PTHREAD_MUTEX_INITIALIZER };

void hand_over(int to, const struct inheritance *followed)
{
    pthread_mutex_lock(&logs.lock);
    free(logs.own.log); /* its heir was dropped */
    logs.own = *followed;
    logs.to = to;
    pthread_mutex_unlock(&logs.lock);
    wake_connections();
}

bool inherit(int from, struct inheritance *followed)
{
    pthread_mutex_lock(&logs.lock);
    bool is_here = logs.others[from].log != NULL;
    if (is_here)
        *followed = logs.others[from];
    pthread_mutex_unlock(&logs.lock);
    return is_here;
}

void send_log(const int peers[])
{
    pthread_mutex_lock(&logs.lock);
    struct inheritance own = logs.own;
    int socket = peers[logs.to];
    logs.own.log = NULL;
    pthread_mutex_unlock(&logs.lock);
    if (!own.log)
        return;
    struct notice notice = { .kind = NOTICE_TAKE, .number = (uint64_t)own.used };
    notice.digest = (struct digest){ .low = own.count, .high = own.first };
    if (socket >= 0 && write_all(socket, &notice, sizeof notice))
        write_all(socket, own.log, sizeof *own.log * (size_t)own.used);
    free(own.log);
}

bool receive_log(int socket, int from, const struct notice *notice)
{
    if (notice->number > MOST_FOLLOWED)
        return false;
    struct followed *log = malloc(sizeof *log * (notice->number + 1));
    if (!log)
        stop_job("no memory for decisions");
    if (!read_all(socket, log, sizeof *log * notice->number)) {
        free(log);
        return false;
    }
    pthread_mutex_lock(&logs.lock);
    logs.others[from] = (struct inheritance){ log, (int)notice->number, notice->digest.low, notice->digest.high };
    pthread_mutex_unlock(&logs.lock);
    return true;
}
