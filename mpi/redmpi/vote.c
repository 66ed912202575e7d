/* See vote.h. */
#include "vote.h"

#include <string.h>

bool same_copy(const struct copy *one, const struct copy *other)
{
    return one == other || (one->is_known && other->is_known && one->bytes == other->bytes &&
                            (one->data == other->data || !one->bytes ||
                             !memcmp(one->data, other->data, one->bytes)));
}

int majority_of(const struct copy copies[], int count)
{
    for (int i = 0; i < count; i++) {
        int alike = 0;
        for (int j = 0; j < count; j++)
            alike += same_copy(&copies[i], &copies[j]);
        if (2 * alike > count)
            return i;
    }
    return -1;
}
