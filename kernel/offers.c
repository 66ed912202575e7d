// SPDX-License-Identifier: GPL-2.0
/*
 * What this kernel offers for tests of its memory.
 *
 * Problem: parts of it can be left out when a kernel is built, and free page
 * reporting has room for one reporter, which a balloon of a virtual machine
 * may be.
 *
 * Idea: what is built in is known when the module is built. Whether reporting
 * is taken is found by a registration that ends at once.
 *
 * Why so: the kernel does not say who reports. A reporter's first pass begins
 * 2 s after its registration, so the trial sees no page; it would decline them.
 */
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/page_reporting.h>

#include "rampart.h"
#include "rampart_abi.h"

#ifdef CONFIG_PAGE_REPORTING
static int decline(struct page_reporting_dev_info *info,
		   struct scatterlist *list, unsigned int entries)
{
	return -EBUSY;
}

static struct page_reporting_dev_info trial = { .report = decline };
static DEFINE_MUTEX(trial_lock);

static u32 reporting_offers(void)
{
	int error;

	mutex_lock(&trial_lock);
	error = page_reporting_register(&trial);
	if (!error)
		page_reporting_unregister(&trial);
	mutex_unlock(&trial_lock);
	return RAMPART_OFFERS_PAGE_REPORTING |
	       (error ? RAMPART_REPORTING_TAKEN : 0);
}
#else
static u32 reporting_offers(void)
{
	return 0;
}
#endif

u32 rampart_offers(void)
{
	u32 offers = reporting_offers();

	if (IS_ENABLED(CONFIG_CONTIG_ALLOC))
		offers |= RAMPART_OFFERS_CONTIG_ALLOC;
	if (IS_ENABLED(CONFIG_MEMORY_FAILURE))
		offers |= RAMPART_OFFERS_MEMORY_FAILURE;
	if (IS_ENABLED(CONFIG_PAGE_TESTS))
		offers |= RAMPART_OFFERS_ON_DEMAND;
	return offers;
}
