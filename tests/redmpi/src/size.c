/* What the simulation asks of the structures of agreement.h. */
#include "agreement.h"

#include <stddef.h>

size_t agreement_size(void)
{
    return sizeof(struct agreement);
}

int agreement_state_of(const struct agreement *agreement)
{
    return (int)agreement->state;
}

int agreement_is_replaced(const struct agreement *agreement)
{
    return agreement->is_replaced;
}
