// SPDX-License-Identifier: GPL-2.0
/*
 * Free lists: takes one block off one of the kernel's free lists.
 *
 * Problem: alloc_contig_range isolates whole pageblocks. If one page in a
 * pageblock cannot be moved, it refuses all of it, free frames included.
 *
 * Idea: an ordinary allocation takes the first block of the free list of its
 * node, zone, migratetype and order. If that list is empty, the kernel would
 * split a larger block, or take one of another migratetype, and with it the
 * pageblock. So the list is looked at before.
 *
 * Blocks of low orders are on a per-CPU list before they come to the free list.
 * A CPU allocates first what was freed last, so some circulate there for ever.
 * Therefore blocks without a valid test, or whose test is older than the owner
 * of the claim wishes, are taken from there first: such a block is brought to
 * the front of its list, and an allocation on that CPU takes it. The others are
 * left alone: claims would chase each block that programs free.
 *
 * When the lists of a CPU are empty, the kernel fills them in batches, if need
 * be by splitting larger blocks. So the module locks the lists of this CPU
 * before it takes a block of the free list: the kernel then bypasses them, and
 * takes exactly one.
 *
 * Why so: an allocated block belongs to the claim, as one of
 * alloc_contig_range does, and a bad frame of it need never go back. Free page
 * reporting is not used, since it puts every block back, with its bad frames.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/pageblock-flags.h>
#include <linux/percpu.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/* rampart_demand_ignore_task() is for one at a time. */
static DEFINE_MUTEX(one_at_a_time);

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
	    list->order >= pageblock_order)
		return -EINVAL;
	if (list->node >= MAX_NUMNODES || !node_online(list->node) ||
	    !populated_zone(zone_of(list)))
		return -ENXIO;
	return 0;
}

/* The list of single frames on which the frame is when it is free. */
int rampart_list_of(unsigned long frame, struct rampart_listed *list)
{
	struct page *page = pfn_to_page(frame);

	*list = (struct rampart_listed){ .node = page_to_nid(page) };
	while (list->zone < ARRAY_SIZE(zones) &&
	       gfp_zone(zones[list->zone]) != page_zonenum(page))
		list->zone++;
	while (list->migratetype < ARRAY_SIZE(types) &&
	       types[list->migratetype].type != rampart_block_type(page))
		list->migratetype++;
	return rampart_list_check(list);
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

static struct page *allocate(const struct rampart_listed *list)
{
	/* Waits for nothing, and touches no reserve. */
	gfp_t flags = __GFP_NOWARN | __GFP_NOMEMALLOC | __GFP_THISNODE |
		      zones[list->zone] | types[list->migratetype].flags;

	return alloc_pages_node(list->node, flags, list->order) ?:
		       ERR_PTR(-ENOMEM);
}

static bool is_frame(unsigned long frame, const void *wanted)
{
	return frame == *(const unsigned long *)wanted;
}

/*
 * Has a block that this CPU freed a moment ago come to the end of its list, if it
 * is there; the CPU allocates it last. Also in an interrupt.
 */
void rampart_list_send_to_end(const struct rampart_listed *list,
			      unsigned long frame)
{
	struct zone *zone = zone_of(list);

	if (populated_zone(zone))
		rampart_send_to_end(this_cpu_ptr(zone->per_cpu_pageset),
				    types[list->migratetype].type, list->order,
				    is_frame, &frame);
}

static bool is_due(unsigned long frame, const void *data)
{
	const struct rampart_listed *list = data;

	return rampart_ages_are_due(frame, 1UL << list->order,
				    list->older ?: U32_MAX);
}

/* A CPU that will allocate a block next whose test is due; -1 if there is none. */
static int cpu_with_due(const struct rampart_listed *list)
{
	int cpu;

	for_each_online_cpu(cpu) {
		if (rampart_bring_to_front(
			    per_cpu_ptr(zone_of(list)->per_cpu_pageset, cpu),
			    types[list->migratetype].type, list->order, is_due,
			    list))
			return cpu;
	}
	return -1;
}

static struct page *take_of_free_list(const struct rampart_listed *list)
{
	struct page *page = ERR_PTR(-ENOENT);
	struct per_cpu_pages *lists = rampart_lock_cpu_lists(zone_of(list));

	if (!is_empty(list))
		page = allocate(list);
	rampart_unlock_cpu_lists(lists);
	return page;
}

/* The kernel may have taken another zone, or what it keeps for itself. */
static bool is_in(const struct rampart_listed *list, const struct page *page)
{
	return page_zone(page) == zone_of(list) &&
	       rampart_block_type(page) < MIGRATE_PCPTYPES;
}

struct taking {
	const struct rampart_listed *list;
	struct page *page;
};

/* Runs on the CPU whose list has a block; it may be gone again. */
static long take_of_cpu_list(void *data)
{
	struct taking *taking = data;

	rampart_demand_ignore_task(true);
	taking->page = allocate(taking->list);
	rampart_demand_ignore_task(false);
	return 0;
}

/* Takes a wanted block of this CPU's list, or one that came before it since. */
static struct page *take_wanted(const struct rampart_listed *list,
				rampart_wants *wants, const void *data)
{
	struct page *page = ERR_PTR(-ENOENT);

	rampart_demand_ignore_task(true);
	if (rampart_bring_to_front(this_cpu_ptr(zone_of(list)->per_cpu_pageset),
				   types[list->migratetype].type, list->order,
				   wants, data))
		page = allocate(list);
	rampart_demand_ignore_task(false);
	return page;
}

static struct page *take_of_this_cpu(const struct rampart_listed *list)
{
	struct page *page;

	migrate_disable();
	page = take_wanted(list, is_due, list);
	migrate_enable();
	return page;
}

static struct page *take_first(const struct rampart_listed *list)
{
	struct taking taking = { list, ERR_PTR(-ENOENT) };
	int cpu = cpu_with_due(list);

	if (cpu >= 0)
		work_on_cpu(cpu, take_of_cpu_list, &taking);
	if (cpu >= 0 || list->older)
		return taking.page;
	rampart_demand_ignore_task(true);
	taking.page = take_of_free_list(list);
	rampart_demand_ignore_task(false);
	return taking.page;
}

static void put_back(struct page *page, unsigned int order)
{
	rampart_demand_ignore_task(true);
	__free_pages(page, order);
	rampart_demand_ignore_task(false);
}

/*
 * Takes a frame that this CPU freed a moment ago; the caller stays on it. The
 * frame then has a reference. Fails if it is on the CPU's list no longer.
 */
int rampart_list_take_frame(const struct rampart_listed *list,
			    unsigned long frame)
{
	struct page *page;

	mutex_lock(&one_at_a_time);
	page = take_wanted(list, is_frame, &frame);
	if (!IS_ERR(page) && page_to_pfn(page) != frame) {
		put_back(page, list->order);
		page = ERR_PTR(-EBUSY);
	}
	mutex_unlock(&one_at_a_time);
	return IS_ERR(page) ? -EBUSY : 0;
}

/*
 * Takes a block of a list, whose frames then have a reference each. No CPU comes
 * or goes meanwhile: the caller holds cpus_read_lock().
 */
int rampart_list_take(const struct rampart_listed *list,
		      enum rampart_lists from, struct rampart_frames *frames)
{
	struct zone *zone = zone_of(list);
	struct page *page;

	frames->count = 1UL << list->order;
	if (zone_page_state(zone, NR_FREE_PAGES) <
	    high_wmark_pages(zone) + frames->count)
		return -ENOMEM;
	mutex_lock(&one_at_a_time);
	page = from == RAMPART_OF_THIS_CPU ? take_of_this_cpu(list) :
					     take_first(list);
	if (!IS_ERR(page) && !is_in(list, page)) {
		put_back(page, list->order);
		page = ERR_PTR(-ENOENT);
	}
	mutex_unlock(&one_at_a_time);
	if (IS_ERR(page))
		return PTR_ERR(page);
	split_page(page, list->order);
	frames->first = page_to_pfn(page);
	return 0;
}
