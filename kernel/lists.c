// SPDX-License-Identifier: GPL-2.0
/*
 * Free lists: one block is taken off one of the kernel's own.
 *
 * Problem: alloc_contig_range isolates whole pageblocks. If one page in a
 * pageblock cannot be moved, it refuses all of it, free frames included.
 *
 * Idea: an ordinary allocation takes the first block of the free list of its
 * node, zone, migratetype and order. If that list is empty, the kernel would
 * split a larger block, or take one of another migratetype, and with it the
 * pageblock. So the list is looked at before. Blocks of low orders usually come
 * from a list of the CPU, which the kernel refills in batches, if need be by
 * splitting larger blocks. So the CPU's lists are locked meanwhile: the kernel
 * then passes them by, and takes exactly one block from the free list.
 *
 * Why so: an allocated block belongs to the claim, as one of
 * alloc_contig_range does, and a bad frame of it need never go back. Free page
 * reporting puts back every block, bad frames included.
 */
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/pageblock-flags.h>
#include <linux/vmstat.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/* rampart_demand_ignore_task() is for one at a time. */
static DEFINE_MUTEX(taking);

static const gfp_t zones[] = {
	[RAMPART_ZONE_DMA] = __GFP_DMA,
	[RAMPART_ZONE_DMA32] = __GFP_DMA32,
	[RAMPART_ZONE_NORMAL] = 0,
};

static const struct {
	gfp_t flags;
	enum migratetype type;
} types[] = {
	[RAMPART_TYPE_UNMOVABLE] = { 0, MIGRATE_UNMOVABLE },
	[RAMPART_TYPE_MOVABLE] = { __GFP_MOVABLE, MIGRATE_MOVABLE },
	[RAMPART_TYPE_RECLAIMABLE] = { __GFP_RECLAIMABLE, MIGRATE_RECLAIMABLE },
};

static struct zone *zone_of(const struct rampart_listed *list)
{
	return &NODE_DATA(list->node)->node_zones[gfp_zone(zones[list->zone])];
}

/* Whether there is such a list. */
int rampart_list_check(const struct rampart_listed *list)
{
	if (list->zone >= ARRAY_SIZE(zones) ||
	    list->migratetype >= ARRAY_SIZE(types) ||
	    list->order >= pageblock_order || list->zero)
		return -EINVAL;
	if (list->node >= MAX_NUMNODES || !node_online(list->node) ||
	    !populated_zone(zone_of(list)))
		return -ENXIO;
	return 0;
}

/*
 * Nothing is locked: when the kernel takes a block, the list may be empty since
 * a moment. Then the block is another one, which is as good to test.
 */
static bool is_empty(const struct rampart_listed *list)
{
	const struct free_area *area = &zone_of(list)->free_area[list->order];

	return list_empty(&area->free_list[types[list->migratetype].type]);
}

static struct page *take_first(const struct rampart_listed *list)
{
	/* Waits for nothing, and touches no reserve. */
	gfp_t flags = __GFP_NOWARN | __GFP_NOMEMALLOC | __GFP_THISNODE |
		      zones[list->zone] | types[list->migratetype].flags;
	struct per_cpu_pages *lists = rampart_lock_cpu_lists(zone_of(list));
	struct page *page = ERR_PTR(-ENOENT);

	if (!is_empty(list))
		page = alloc_pages_node(list->node, flags, list->order) ?:
			       ERR_PTR(-ENOMEM);
	rampart_unlock_cpu_lists(lists);
	return page;
}

/* The kernel may have taken another zone, or what it keeps for itself. */
static bool is_in(const struct rampart_listed *list, const struct page *page)
{
	return page_zone(page) == zone_of(list) &&
	       rampart_block_type(page) < MIGRATE_PCPTYPES;
}

/* Takes the first block of a list, whose frames then have a reference each. */
int rampart_list_take(const struct rampart_listed *list,
		      struct rampart_frames *frames)
{
	struct zone *zone = zone_of(list);
	struct page *page;

	frames->count = 1UL << list->order;
	if (zone_page_state(zone, NR_FREE_PAGES) <
	    high_wmark_pages(zone) + frames->count)
		return -ENOMEM;
	mutex_lock(&taking);
	rampart_demand_ignore_task(true);
	page = take_first(list);
	if (!IS_ERR(page) && !is_in(list, page)) {
		__free_pages(page, list->order);
		page = ERR_PTR(-ENOENT);
	}
	rampart_demand_ignore_task(false);
	mutex_unlock(&taking);
	if (IS_ERR(page))
		return PTR_ERR(page);
	split_page(page, list->order);
	frames->first = page_to_pfn(page);
	return 0;
}
