/* See ending.h. */
#include "ending.h"

void ending_come(struct ending *ending)
{
    ending->stage = ENDING_COME;
}

void ending_meet(struct ending *ending)
{
    ending->stage = ENDING_MET;
}

void ending_hear(struct ending *ending, int from)
{
    ending->come |= UINT32_C(1) << from;
}

void ending_leave(struct ending *ending, uint64_t path)
{
    ending->stage = ENDING_LEAVES;
    ending->own_path = path;
}

void ending_hear_leaving(struct ending *ending, int from, uint64_t path)
{
    ending->paths[from] = path;
}

bool ending_may_leave(const struct ending *ending, uint32_t others)
{
    bool are_alike = true;
    for (uint32_t left = others; are_alike && left; left &= left - 1)
        are_alike = ending->paths[__builtin_ctz(left)] == ending->own_path;
    return are_alike;
}

bool ending_hear_over(struct ending *ending)
{
    bool is_news = !ending->is_over;
    ending->is_over = true;
    return is_news;
}

bool ending_say(struct ending *ending, enum notice_kind *kind)
{
    if (ending->stage == ENDING_COME) {
        ending->stage = ENDING_SAID;
        *kind = NOTICE_AT_END;
        return true;
    }
    if (ending->stage == ENDING_LEAVES) {
        ending->stage = ENDING_LEAVES_SAID;
        *kind = NOTICE_LEAVES;
        return true;
    }
    if (ending->stage != ENDING_MET || !ending_hear_over(ending))
        return false;
    *kind = NOTICE_OVER;
    return true;
}

bool ending_may_meet(const struct ending *ending, uint32_t others, bool is_voting)
{
    bool are_done = !(others & ~ending->come) && !is_voting;
    return ending->stage == ENDING_SAID && (ending->is_over || are_done);
}
