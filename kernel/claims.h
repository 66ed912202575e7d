/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A claim, as claims.c keeps it and verdicts.c gives its frames back.
 */
#ifndef RAMPART_CLAIMS_H
#define RAMPART_CLAIMS_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "rampart.h"
#include "rampart_abi.h"

enum origin {
	FROM_KERNEL,
	BEFORE_FIRST_USE, /* one block, which came online */
	ON_DEMAND /* one block, for which a task waits */
};

struct claim {
	struct rb_node by_frame;
	struct list_head by_age;
	struct rampart_holder *holder;
	struct rampart_frames frames;
	enum origin origin;
	bool is_aside; /* the holder does not know of it yet */
	struct rampart_listed list; /* then: where it came from */
	struct rampart_wanted *wanted; /* ON_DEMAND */
	pid_t maker; /* the thread that made it */
	u64 number;
	unsigned long since; /* jiffies: when its time began */
};

/* claims.c */
void rampart_wait_again(const struct rampart_frames *frames);

/* verdicts.c */
void rampart_give_frames_back(const struct claim *claim,
			      unsigned long *bad, bool tested);

#endif
