/* See hand_over.h. */
#include "hand_over.h"

#include <pthread.h>
#include <stdlib.h>

#include "connections.h"
#include "events.h"
#include "sockets.h"

struct log {
    struct followed *entries;
    int used, to;
    uint64_t count;
};

static struct {
    pthread_mutex_t lock;
    struct log others[MOST_REPLICAS], own; /* the own one is to be sent */
} logs = { .lock = PTHREAD_MUTEX_INITIALIZER };

void hand_over_log(int to, struct followed *log, int used, uint64_t count)
{
    pthread_mutex_lock(&logs.lock);
    logs.own = (struct log){ .entries = log, .used = used, .to = to, .count = count };
    pthread_mutex_unlock(&logs.lock);
    wake_connections();
}

bool take_log(int from, struct followed **log, int *used, uint64_t *count)
{
    pthread_mutex_lock(&logs.lock);
    const struct log *came = &logs.others[from];
    bool is_here = came->entries != NULL;
    if (is_here) {
        *log = came->entries;
        *used = came->used;
        *count = came->count;
    }
    pthread_mutex_unlock(&logs.lock);
    return is_here;
}

void send_log(const int peers[])
{
    pthread_mutex_lock(&logs.lock);
    struct log log = logs.own;
    logs.own.entries = NULL;
    pthread_mutex_unlock(&logs.lock);
    if (!log.entries)
        return;
    struct notice notice = { .kind = NOTICE_TAKE, .number = (uint64_t)log.used, .digest = { .low = log.count } };
    if (peers[log.to] >= 0 && write_all(peers[log.to], &notice, sizeof notice))
        write_all(peers[log.to], log.entries, sizeof *log.entries * (size_t)log.used);
    free(log.entries);
}

bool receive_log(int socket, int from, const struct notice *notice)
{
    if (notice->number > MOST_FOLLOWED)
        return false;
    struct followed *entries = malloc(sizeof *entries * (notice->number + 1));
    if (!entries)
        stop_job("no memory for decisions");
    if (!read_all(socket, entries, sizeof *entries * notice->number)) {
        free(entries);
        return false;
    }
    pthread_mutex_lock(&logs.lock);
    logs.others[from] = (struct log){ .entries = entries, .used = (int)notice->number, .count = notice->digest.low };
    pthread_mutex_unlock(&logs.lock);
    return true;
}
