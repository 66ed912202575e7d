// SPDX-License-Identifier: GPL-2.0
/*
 * Verdicts: the frames of a claim that has ended go back, but for the bad ones.
 *
 * Problem: where frames go depends on where they came from: to the free lists, to
 * the memory that waits for its first use, or to a task that waits for them. A
 * bad frame goes nowhere.
 *
 * Idea: one block is given back as it came if all of it is good. Otherwise its
 * frames go one by one.
 *
 * Why so: the claim is no longer there (claims.c), so that nothing else can give
 * the same frames back, and no lock is needed.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "claims.h"
#include "rampart.h"
#include "rampart_abi.h"

static void keep_frame(const struct claim *claim, struct page *page)
{
	rampart_ages_judge(page_to_pfn(page), RAMPART_IS_BAD);
	if (claim->origin == BEFORE_FIRST_USE)
		rampart_new_keep(page);
	else
		__ClearPageOffline(page);
}

static void give_back_frame(const struct claim *claim, struct page *page,
			    bool tested)
{
	if (tested)
		rampart_ages_judge(page_to_pfn(page), RAMPART_IS_GOOD);
	if (claim->origin == BEFORE_FIRST_USE)
		rampart_new_use(page, tested);
	else
		rampart_frame_free(page);
}

/*
 * Frees the good frames. A bad one is never on a free list: the claim's
 * reference to it is kept for ever [Rahman16, figure 8].
 */
static void give_back_frames(const struct claim *claim, unsigned long *bad,
			     bool tested)
{
	unsigned long i;

	for (i = 0; i < claim->frames.count; i++) {
		struct page *page = pfn_to_page(claim->frames.first + i);

		cond_resched();
		if (test_bit(i, bad))
			keep_frame(claim, page);
		else
			give_back_frame(claim, page, tested);
	}
}

/* What the hardware found bad meanwhile is not freed by the kernel either. */
static void add_poisoned(const struct claim *claim, unsigned long *bad)
{
	unsigned long i;

	for (i = 0; i < claim->frames.count; i++) {
		if (PageHWPoison(pfn_to_page(claim->frames.first + i)))
			__set_bit(i, bad);
	}
}

/*
 * Gives the frames of a claim that has ended back, but for the bad ones; `bad`
 * has RAMPART_CLAIM_MOST bits, one for each frame from the claim's first on.
 */
void rampart_give_frames_back(const struct claim *claim,
			      unsigned long *bad, bool tested)
{
	bool all_good;

	add_poisoned(claim, bad);
	all_good = bitmap_empty(bad, RAMPART_CLAIM_MOST);
	if (claim->origin == BEFORE_FIRST_USE && !tested && all_good) {
		rampart_wait_again(&claim->frames);
	} else if (claim->origin == ON_DEMAND && all_good) {
		if (tested)
			rampart_wanted_good(claim->wanted);
		else
			rampart_wanted_untested(claim->wanted);
	} else {
		if (claim->origin == ON_DEMAND)
			rampart_wanted_keep(claim->wanted);
		give_back_frames(claim, bad, tested);
	}
}
