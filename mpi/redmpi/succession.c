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

struct inheritance succession_copy(const struct succession *succession, struct followed *log)
{
    for (int i = 0; i < succession->used; i++)
        log[i] = succession->log[(succession->begin + i) % MOST_FOLLOWED];
    return (struct inheritance){ log, succession->used, succession->count, succession->first };
}

int one_ahead(const struct inheritance others[], uint32_t mask, uint64_t count)
{
    for (uint32_t left = mask; left; left &= left - 1) {
        int one = __builtin_ctz(left);
        if (others[one].count > count)
            return one;
    }
    return -1;
}

bool trim_to_missing(struct followed *one, uint64_t known)
{
    uint64_t missing = one->count > known ? one->count - known : 0;
    struct decision *decision = &one->decision;
    if (decision->kind == DECISION_NOTHING && (uint64_t)decision->numbers[0] > missing)
        decision->numbers[0] = (int32_t)missing;
    return decision->kind == DECISION_RESOLVED || missing;
}

bool next_followed(const struct inheritance *from, uint64_t count, struct decision *decision)
{
    for (int i = 0; i < from->used; i++) {
        const struct followed *one = &from->log[i];
        if (one->decision.kind == DECISION_RESOLVED || one->count <= count)
            continue;
        *decision = one->decision;
        if (decision->kind == DECISION_NOTHING)
            decision->numbers[0] = 1;
        return true;
    }
    return false;
}

bool followed_receive(const struct inheritance *from, uint64_t number, struct decision *decision)
{
    for (int i = from->used - 1; i >= 0; i--) {
        const struct decision *one = &from->log[i].decision;
        if (one->kind == DECISION_RESOLVED && one->receive == number) {
            *decision = *one;
            return true;
        }
    }
    return false;
}
