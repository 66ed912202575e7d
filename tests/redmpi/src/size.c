/* What the simulations ask of the structures of agreement.h and comparison.h. */
#include "agreement.h"
#include "comparison.h"

#include <stddef.h>

size_t comparison_size(void)
{
    return sizeof(struct comparison);
}

uint64_t comparison_compared(const struct comparison *comparison)
{
    return comparison->compared;
}

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
