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

struct rampart_info {
	__u32 abi;
	__u32 offers;
};

_Static_assert(sizeof(struct rampart_info) == 8, "rampart_info: size");
_Static_assert(__builtin_offsetof(struct rampart_info, abi) == 0,
	       "rampart_info: abi");
_Static_assert(__builtin_offsetof(struct rampart_info, offers) == 4,
	       "rampart_info: offers");

#define RAMPART_GET_INFO _IOR(0xB7, 0x00, struct rampart_info)

_Static_assert(RAMPART_GET_INFO == 0x8008b700, "RAMPART_GET_INFO: number");

#endif
