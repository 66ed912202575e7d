/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What the module and its users agree on.
 *
 * Problem: the module and the program that uses it are built at different
 * times, and one that misreads the other would take good memory for bad.
 *
 * Idea: one header for both sides. It has a version, which a user compares
 * first, at /sys/kernel/rampart/abi; structures have types of one size on
 * every machine, no holes, and the compiler checks each offset.
 *
 * Why so: a number that must be equal is simpler to get right than a
 * negotiation, and `rampart kernel build` makes the module that fits.
 *
 * docs/kernel-abi.md says what each part means.
 */
#ifndef RAMPART_ABI_H
#define RAMPART_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Raised by each change that a user of the version before would misread. */
#define RAMPART_ABI 1

/* What this kernel offers: bits of rampart_info.offers. */
#define RAMPART_OFFERS_CONTIG_ALLOC	(1U << 0) /* chosen ranges can be allocated */
#define RAMPART_OFFERS_PAGE_REPORTING	(1U << 1) /* free page reporting is built in */
#define RAMPART_REPORTING_TAKEN		(1U << 2) /* but another reporter has it */
#define RAMPART_OFFERS_MEMORY_FAILURE	(1U << 3) /* bad frames can be retired */
#define RAMPART_OFFERS_ON_DEMAND	(1U << 4) /* blocks are tested before they are handed out */

struct rampart_info {
	__u32 abi;
	__u32 offers;
};

/* The most frames of one claim. */
#define RAMPART_CLAIM_MOST 8192

/* How frames are claimed: rampart_claim.how. */
#define RAMPART_CLAIM_FREE 0 /* refused if a frame is in use */
#define RAMPART_CLAIM_MOVE 1 /* what is in use is moved elsewhere */

struct rampart_claim {
	__u64 first;	/* in: frame number */
	__u32 frames;	/* in: 1 to RAMPART_CLAIM_MOST */
	__u32 how;	/* in */
	__u64 claim;	/* out: number of the claim, never the same twice */
	__u32 in_use;	/* out: frames that were in use, also if refused */
	__u32 zero;	/* in: 0 */
};

/* Where a free list is: rampart_listed.zone, and .migratetype. */
#define RAMPART_ZONE_DMA	0
#define RAMPART_ZONE_DMA32	1
#define RAMPART_ZONE_NORMAL	2
#define RAMPART_TYPE_UNMOVABLE	0
#define RAMPART_TYPE_MOVABLE	1
#define RAMPART_TYPE_RECLAIMABLE 2

/*
 * A block of 2^order frames: the first of a free list of the kernel, or one of
 * the list of a CPU.
 */
struct rampart_listed {
	__u32 node;	/* in */
	__u32 zone;	/* in */
	__u32 migratetype; /* in */
	__u32 order;	/* in: less than that of a pageblock */
	__u64 first;	/* out: frame number */
	__u64 claim;	/* out: number of the claim, as in rampart_claim */
	__u32 frames;	/* out */
	__u32 older;	/* in: seconds; if not 0, only of the lists of CPUs */
};

/*
 * A block of a node that the module chooses: of memory that came online and was
 * not used yet, or one for which a task waits that allocates.
 */
struct rampart_node_block {
	__u64 first;	/* out: frame number */
	__u64 claim;	/* out: number of the claim, as in rampart_claim */
	__u32 node;	/* in */
	__u32 frames;	/* out */
};

/* What is known after a test: bits of rampart_give_back.flags. */
#define RAMPART_TESTED	(1U << 0) /* frames that are not bad are good */
#define RAMPART_FORCE	(1U << 1) /* retire more than a hundredth of memory */

struct rampart_give_back {
	__u64 first;	/* as claimed */
	__u64 claim;	/* its number */
	__u64 bad;	/* address of numbers of bad frames, __u64 each */
	__u32 bad_frames;
	__u32 flags;
};

/* In seconds. A test is good while its age + margin < seconds; 0: for ever. */
struct rampart_lifetime {
	__u32 seconds;
	__u32 margin;
};

/* An entry of the table of ages. */
#define RAMPART_AGE_TESTED	((1U << 29) - 1) /* second of the test + 1; 0: never */
#define RAMPART_AGE_BAD		RAMPART_AGE_TESTED /* retired */
#define RAMPART_AGE_FREE	(1U << 29) /* freed, and not allocated since */
#define RAMPART_AGE_HELD	(1U << 30) /* by a claim */
#define RAMPART_AGE_FREED	(1U << 31) /* after its test */

_Static_assert(sizeof(struct rampart_info) == 8, "rampart_info: size");
_Static_assert(__builtin_offsetof(struct rampart_info, abi) == 0,
	       "rampart_info: abi");
_Static_assert(__builtin_offsetof(struct rampart_info, offers) == 4,
	       "rampart_info: offers");

_Static_assert(sizeof(struct rampart_claim) == 32, "rampart_claim: size");
_Static_assert(__builtin_offsetof(struct rampart_claim, frames) == 8,
	       "rampart_claim: frames");
_Static_assert(__builtin_offsetof(struct rampart_claim, how) == 12,
	       "rampart_claim: how");
_Static_assert(__builtin_offsetof(struct rampart_claim, claim) == 16,
	       "rampart_claim: claim");
_Static_assert(__builtin_offsetof(struct rampart_claim, in_use) == 24,
	       "rampart_claim: in_use");
_Static_assert(__builtin_offsetof(struct rampart_claim, zero) == 28,
	       "rampart_claim: zero");

_Static_assert(sizeof(struct rampart_listed) == 40, "rampart_listed: size");
_Static_assert(__builtin_offsetof(struct rampart_listed, zone) == 4,
	       "rampart_listed: zone");
_Static_assert(__builtin_offsetof(struct rampart_listed, migratetype) == 8,
	       "rampart_listed: migratetype");
_Static_assert(__builtin_offsetof(struct rampart_listed, order) == 12,
	       "rampart_listed: order");
_Static_assert(__builtin_offsetof(struct rampart_listed, first) == 16,
	       "rampart_listed: first");
_Static_assert(__builtin_offsetof(struct rampart_listed, claim) == 24,
	       "rampart_listed: claim");
_Static_assert(__builtin_offsetof(struct rampart_listed, frames) == 32,
	       "rampart_listed: frames");
_Static_assert(__builtin_offsetof(struct rampart_listed, older) == 36,
	       "rampart_listed: older");

_Static_assert(sizeof(struct rampart_node_block) == 24,
	       "rampart_node_block: size");
_Static_assert(__builtin_offsetof(struct rampart_node_block, claim) == 8,
	       "rampart_node_block: claim");
_Static_assert(__builtin_offsetof(struct rampart_node_block, node) == 16,
	       "rampart_node_block: node");
_Static_assert(__builtin_offsetof(struct rampart_node_block, frames) == 20,
	       "rampart_node_block: frames");

_Static_assert(sizeof(struct rampart_give_back) == 32,
	       "rampart_give_back: size");
_Static_assert(__builtin_offsetof(struct rampart_give_back, claim) == 8,
	       "rampart_give_back: claim");
_Static_assert(__builtin_offsetof(struct rampart_give_back, bad) == 16,
	       "rampart_give_back: bad");
_Static_assert(__builtin_offsetof(struct rampart_give_back, bad_frames) == 24,
	       "rampart_give_back: bad_frames");
_Static_assert(__builtin_offsetof(struct rampart_give_back, flags) == 28,
	       "rampart_give_back: flags");

_Static_assert(sizeof(struct rampart_lifetime) == 8, "rampart_lifetime: size");
_Static_assert(__builtin_offsetof(struct rampart_lifetime, margin) == 4,
	       "rampart_lifetime: margin");

#define RAMPART_GET_INFO	_IOR(0xB7, 0x00, struct rampart_info)
#define RAMPART_CLAIM		_IOWR(0xB7, 0x01, struct rampart_claim)
#define RAMPART_GIVE_BACK	_IOW(0xB7, 0x02, struct rampart_give_back)
#define RAMPART_SET_LIFETIME	_IOW(0xB7, 0x03, struct rampart_lifetime)
#define RAMPART_RENEW		_IO(0xB7, 0x04)
#define RAMPART_CLAIM_LISTED	_IOWR(0xB7, 0x05, struct rampart_listed)
#define RAMPART_CLAIM_NEW	_IOWR(0xB7, 0x06, struct rampart_node_block)
#define RAMPART_CLAIM_DEMANDED	_IOWR(0xB7, 0x07, struct rampart_node_block)

_Static_assert(RAMPART_GET_INFO == 0x8008b700, "RAMPART_GET_INFO: number");
_Static_assert(RAMPART_CLAIM == 0xc020b701, "RAMPART_CLAIM: number");
_Static_assert(RAMPART_GIVE_BACK == 0x4020b702, "RAMPART_GIVE_BACK: number");
_Static_assert(RAMPART_SET_LIFETIME == 0x4008b703,
	       "RAMPART_SET_LIFETIME: number");
_Static_assert(RAMPART_RENEW == 0xb704, "RAMPART_RENEW: number");
_Static_assert(RAMPART_CLAIM_LISTED == 0xc028b705,
	       "RAMPART_CLAIM_LISTED: number");
_Static_assert(RAMPART_CLAIM_NEW == 0xc018b706, "RAMPART_CLAIM_NEW: number");
_Static_assert(RAMPART_CLAIM_DEMANDED == 0xc018b707,
	       "RAMPART_CLAIM_DEMANDED: number");

#endif
