// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: chosen ones are taken from the kernel, and given back to it.
 *
 * Problem: a frame of a claim must be in nobody's hands, and must show nothing
 * of who had it before. A pageblock must come out as it went in.
 *
 * Idea: alloc_contig_range takes a range: free frames off their lists, and the
 * content of used ones is moved before. A range is taken in parts of one
 * migratetype, and the kernel puts the same one back. A single frame in use is
 * taken in another way, if that can be (moves.c). A frame is cleared, and marked
 * offline while it is claimed.
 *
 * Why so: the kernel's own allocation and free are used, so that it zeroes,
 * poisons and accounts pages as it is configured to. A memory block whose
 * frames are marked offline can go offline all the same, and dumps leave them
 * out.
 */
#include <linux/gfp.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pageblock-flags.h>
#include <linux/sched.h>

#include "compat.h"
#include "rampart.h"

/* One at a time: two in one pageblock would end each other's isolation. */
static DEFINE_MUTEX(taking);

/* Whether the frames are online memory of one zone; counts those in use. */
int rampart_frames_look(const struct rampart_frames *frames, u32 *in_use)
{
	struct zone *zone = NULL;
	unsigned long frame;

	*in_use = 0;
	for (frame = frames->first; frame < frames->first + frames->count;
	     frame++) {
		struct page *page = pfn_to_online_page(frame);

		if (!page || PageReserved(page) || PageHWPoison(page))
			return -ENXIO;
		if (zone && page_zone(page) != zone)
			return -ENXIO;
		zone = page_zone(page);
		/* A page of the pool of huge ones has no reference while nobody has it. */
		*in_use += page_count(page) != 0 || PageHuge(page);
	}
	if (zone_page_state(zone, NR_FREE_PAGES) <
	    high_wmark_pages(zone) + frames->count)
		return -ENOMEM;
	return 0;
}

void rampart_frame_free(struct page *page)
{
	__ClearPageOffline(page);
	__free_page(page);
}

void rampart_frames_free(const struct rampart_frames *frames)
{
	unsigned long frame;

	for (frame = frames->first; frame < frames->first + frames->count;
	     frame++) {
		rampart_frame_free(pfn_to_page(frame));
		cond_resched();
	}
}

/* Nobody but the kernel may see what was in the frame before. */
static void prepare_frame(struct page *page)
{
	clear_page(page_address(page));
	__SetPageOffline(page);
	rampart_ages_hold(page_to_pfn(page));
}

void rampart_frames_prepare(const struct rampart_frames *frames)
{
	unsigned long frame;

	for (frame = frames->first; frame < frames->first + frames->count;
	     frame++) {
		prepare_frame(pfn_to_page(frame));
		cond_resched();
	}
}

/* The end of the part that begins at `frame` and has pageblocks of one migratetype. */
static unsigned long part_end(unsigned long frame, unsigned long end,
			      unsigned int type)
{
	unsigned long part;

	for (part = pageblock_end_pfn(frame); part < end;
	     part += pageblock_nr_pages) {
		if (rampart_block_type(pfn_to_page(part)) != type)
			break;
	}
	return min(part, end);
}

static int take_range(const struct rampart_frames *range, unsigned int type)
{
	unsigned long end = range->first + range->count;
	int error;

	rampart_demand_ignore(range->first, end);
	error = alloc_contig_range(range->first, end, type,
				   GFP_KERNEL | __GFP_NOWARN);
	rampart_demand_ignore(0, 0);
	return error;
}

static int take_part(const struct rampart_frames *part, unsigned int type)
{
	int error = -EBUSY;

	if (type == MIGRATE_ISOLATE)
		return -EBUSY;
	mutex_lock(&taking);
	if (part->count == 1)
		error = rampart_move(part->first);
	if (error == -EBUSY)
		error = take_range(part, type);
	mutex_unlock(&taking);
	if (!error)
		rampart_frames_prepare(part);
	return error;
}

/*
 * Takes all or none. In the latter case some may have been taken, and were
 * freed again: `freed` says how many.
 */
int rampart_frames_take(const struct rampart_frames *frames,
			unsigned long *freed)
{
	struct rampart_frames taken = { frames->first, 0 };
	unsigned long end = frames->first + frames->count;

	*freed = 0;
	while (taken.count < frames->count) {
		unsigned long first = taken.first + taken.count;
		unsigned int type = rampart_block_type(pfn_to_page(first));
		struct rampart_frames part = {
			first, part_end(first, end, type) - first
		};
		int error = take_part(&part, type);

		if (error) {
			rampart_frames_free(&taken);
			*freed = taken.count;
			return error;
		}
		taken.count += part.count;
	}
	return 0;
}
