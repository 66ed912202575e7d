/* See succession.h. */
#include "succession.h"

static struct followed *place(struct succession *succession, int number)
{
    return &succession->log[(succession->begin + number) % MOST_FOLLOWED];
}

void succession_follow(struct succession *succession, const struct decision *decision)
{
    struct followed *last = succession->used ? place(succession, succession->used - 1) : 0;
    if (decision->kind != DECISION_RESOLVED)
        succession->count++;
    if (decision->kind == DECISION_NOTHING && last && last->decision.kind == DECISION_NOTHING &&
        last->decision.numbers[0] < INT32_MAX) {
        last->decision.numbers[0]++;
        last->count = succession->count;
        return;
    }
    if (succession->used == MOST_FOLLOWED) {
        succession->first = place(succession, 0)->count;
        succession->begin = (succession->begin + 1) % MOST_FOLLOWED;
        succession->used--;
    }
    struct followed *next = place(succession, succession->used++);
    *next = (struct followed){ .decision = *decision, .count = succession->count };
    if (decision->kind == DECISION_NOTHING)
        next->decision.numbers[0] = 1;
}

int succession_copy(const struct succession *succession, struct followed *to)
{
    for (int i = 0; i < succession->used; i++)
        to[i] = succession->log[(succession->begin + i) % MOST_FOLLOWED];
    return succession->used;
}

bool next_followed(const struct followed *log, int used, uint64_t count, struct decision *decision)
{
    for (int i = 0; i < used; i++) {
        if (log[i].decision.kind == DECISION_RESOLVED || log[i].count <= count)
            continue;
        *decision = log[i].decision;
        if (decision->kind == DECISION_NOTHING)
            decision->numbers[0] = (int32_t)(log[i].count - count);
        return true;
    }
    return false;
}

bool followed_receive(const struct followed *log, int used, uint64_t number, struct decision *decision)
{
    for (int i = used - 1; i >= 0; i--) {
        if (log[i].decision.kind == DECISION_RESOLVED && log[i].decision.receive == number) {
            *decision = log[i].decision;
            return true;
        }
    }
    return false;
}
