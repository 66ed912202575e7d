/* Memory as the C library has it: that of malloc has zeros in it (heap.c), which takes long where a buffer is much
 * larger than what comes into it. */
#ifndef RAMPART_HEAP_H
#define RAMPART_HEAP_H

#include <stddef.h>

void *malloc_as_it_is(size_t size);

#endif
