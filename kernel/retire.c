// SPDX-License-Identifier: GPL-2.0
/*
 * Retirement: a bad frame of a claim is never used again.
 *
 * Problem: the module can keep a frame for as long as it is loaded; after that
 * nobody would know why the frame is missing.
 *
 * Idea: memory_failure() marks the frame as poisoned, counts it (as
 * HardwareCorrupted of /proc/meminfo), and has the kernel refuse it for ever.
 * The claim's reference to the frame is never dropped.
 *
 * Why so: the mark is the one that the kernel makes for bad memory that it
 * finds itself, so other tools see it, and it outlives the module. The kernel
 * does not know what the frame is used for, so it logs that it did nothing
 * else ("Ignored"), and returns an error though the mark is made.
 */
#include <linux/mm.h>

#include "rampart.h"

void rampart_retire(unsigned long frame)
{
#ifdef CONFIG_MEMORY_FAILURE
	memory_failure(frame, 0);
#endif
}
