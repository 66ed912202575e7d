/* See protocol.h. */
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "log.h"
#include "teams.h"

static struct sent sent;

bool sends_copies(void)
{
    static int is_known, is_so;
    if (!is_known) {
        const char *protocol = getenv("RAMPART_PROTOCOL");
        is_so = protocol && !strcmp(protocol, "all-to-all");
        is_known = true;
    }
    return is_so;
}

int teams_heard(void)
{
    return sends_copies() ? teams.replicas - 1 : teams_beside();
}

size_t most_whole(void)
{
    return sends_copies() ? SIZE_MAX : WHOLE;
}

void count_sent(size_t bytes, size_t envelope)
{
    sent.messages += 1 + (uint64_t)teams_heard();
    sent.bytes += bytes + (uint64_t)teams_heard() * envelope;
}

struct sent sent_so_far(void)
{
    return sent;
}
