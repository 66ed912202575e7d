// SPDX-License-Identifier: GPL-2.0
/*
 * Demand: how many blocks were allocated and freed, by node, migratetype and
 * order [Rahman16, A.1.3].
 *
 * Problem: how much tested memory must lie ready depends on what the machine
 * asks for, of each order; the kernel keeps only sums over all orders.
 *
 * Idea: probes at the tracepoints mm_page_alloc and mm_page_free add one to a
 * counter of this CPU. A probe takes no lock, allocates nothing, and may run
 * in any context. Each possible CPU has its counters for as long as the module
 * is loaded, so that CPUs may come and go; a reader adds them up.
 *
 * Why so: the tracepoints are there in an unpatched kernel, and cost nothing
 * until somebody probes them. They are not exported by name, but the kernel
 * lists them. mm_page_free_batched is not probed: mm_page_free has come for
 * the same page before. mm_page_alloc_zone_locked is not probed: a page that
 * it shows goes to a list of a CPU first, and is counted when it leaves that.
 *
 * Pages that are taken in bulk pass by the tracepoints. The kernel's own sums
 * include them, so both are shown side by side.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/vmstat.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/* Blocks, as one CPU saw them on one node. */
struct rampart_blocks {
	unsigned long of[RAMPART_COUNTS][MIGRATE_TYPES][NR_PAGE_ORDERS];
};

/* By node; nodes that cannot be have none. */
static struct rampart_blocks __percpu **blocks;

/* The kernel's sums when the counters began, in frames. */
static unsigned long before[RAMPART_FLOWS];

static void count(enum rampart_count what, const struct page *page,
		  unsigned int type, unsigned int order)
{
	if (type < MIGRATE_TYPES && order < NR_PAGE_ORDERS)
		this_cpu_inc(blocks[page_to_nid(page)]->of[what][type][order]);
}

/* Takes a block off a free list for a claim. */
static struct task_struct *ignored;

/* Frames that were taken so. */
static atomic_long_t listed = ATOMIC_LONG_INIT(0);

/* What this task allocates and frees is no demand. One task at a time. */
void rampart_demand_ignore_task(bool ignore)
{
	WRITE_ONCE(ignored, ignore ? current : NULL);
}

bool rampart_demand_is_ignored(void)
{
	return READ_ONCE(ignored) == current && in_task();
}

/*
 * Frames that a task takes by alloc_contig_range. The kernel takes whole free
 * blocks and frees what lies beside the range, though it was not in use.
 */
static struct {
	struct task_struct *task;
	unsigned long first, end;
} taken;

/* Whether what this task allocates is for content that it moves out of them. */
bool rampart_demand_is_taking(void)
{
	return READ_ONCE(taken.task) == current && in_task();
}

/* Frames to which content was moved out of these. */
static atomic_long_t moved[RAMPART_TARGETS];

unsigned long rampart_demand_moved(enum rampart_target target)
{
	return atomic_long_read(&moved[target]);
}

/* A page that alloc_contig_range gets is for content that it moves. */
static void see_move(unsigned long frame, unsigned long frames, bool good)
{
	enum rampart_target target = RAMPART_MOVED_TO_EXPIRED;

	if (!rampart_demand_is_taking())
		return;
	if (good)
		target = RAMPART_MOVED_TO_FRESH;
	else if (!(rampart_age(frame) & RAMPART_AGE_TESTED))
		target = RAMPART_MOVED_TO_NEVER;
	atomic_long_add(frames, &moved[target]);
}

/* Runs also when there was no page to give. */
static void see_alloc(void *unused, struct page *page, unsigned int order,
		      gfp_t gfp, int type)
{
	bool good, unfreed;

	if (!page)
		return;
	rampart_ages_allocate(page_to_pfn(page), 1UL << order, &good, &unfreed);
	if (rampart_demand_is_ignored()) {
		atomic_long_add(1L << order, &listed);
		return;
	}
	count(RAMPART_ALLOCATED, page, type, order);
	see_move(page_to_pfn(page), 1UL << order, good);
	if (good)
		count(RAMPART_ALLOCATED_TESTED, page, type, order);
	if (unfreed)
		count(RAMPART_ALLOCATED_UNFREED, page, type, order);
}

static atomic_long_t beside_taken = ATOMIC_LONG_INIT(0);

/*
 * The frees of this task beside first..end are no demand, until a call with an
 * empty range.
 */
void rampart_demand_ignore(unsigned long first, unsigned long end)
{
	taken.first = first;
	taken.end = end;
	WRITE_ONCE(taken.task, first < end ? current : NULL);
}

static bool is_beside_taken(unsigned long frame)
{
	return rampart_demand_is_taking() &&
	       (frame < taken.first || frame >= taken.end) &&
	       frame >= ALIGN_DOWN(taken.first, MAX_ORDER_NR_PAGES) &&
	       frame < ALIGN(taken.end, MAX_ORDER_NR_PAGES);
}

/* What a claim gives back was not in use: it is no demand. */
static void see_free(void *unused, struct page *page, unsigned int order)
{
	unsigned int type = rampart_block_type(page);
	bool good, unfreed;

	if (is_beside_taken(page_to_pfn(page)) || rampart_demand_is_ignored()) {
		atomic_long_add(1L << order, &beside_taken);
		return;
	}
	rampart_ages_see(page_to_pfn(page), 1UL << order, &good, &unfreed);
	if (rampart_ages_free(page_to_pfn(page), 1UL << order))
		return;
	count(RAMPART_FREED, page, type, order);
	if (good)
		count(RAMPART_FREED_FRESH, page, type, order);
	else if (!rampart_demand_is_taking())
		rampart_recycle(page_to_pfn(page), order);
}

static struct rampart_probe {
	const char *name;
	void *see;
	struct tracepoint *at;
} probes[] = {
	{ .name = "mm_page_alloc", .see = see_alloc },
	{ .name = "mm_page_free", .see = see_free },
};

static void find_probe(struct tracepoint *tracepoint, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		if (!strcmp(tracepoint->name, probes[i].name))
			probes[i].at = tracepoint;
	}
}

/* Ends the first of the probes; when this returns, none of them runs. */
static void end_probes(unsigned int begun)
{
	while (begun--)
		tracepoint_probe_unregister(probes[begun].at,
					    probes[begun].see, NULL);
	tracepoint_synchronize_unregister();
}

static int begin_probes(void)
{
	unsigned int i;
	int error;

	for_each_kernel_tracepoint(find_probe, NULL);
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		error = -ENOENT;
		if (probes[i].at)
			error = tracepoint_probe_register(probes[i].at,
							  probes[i].see, NULL);
		if (error) {
			pr_err("no probe at tracepoint %s: %d\n",
			       probes[i].name, error);
			end_probes(i);
			return error;
		}
	}
	return 0;
}

static void free_blocks(void)
{
	int node;

	for (node = 0; node < nr_node_ids; node++)
		free_percpu(blocks[node]);
	kfree(blocks);
}

static int alloc_blocks(void)
{
	int node;

	blocks = kcalloc(nr_node_ids, sizeof(*blocks), GFP_KERNEL);
	if (!blocks)
		return -ENOMEM;
	for_each_node(node) {
		blocks[node] = alloc_percpu(struct rampart_blocks);
		if (!blocks[node]) {
			free_blocks();
			return -ENOMEM;
		}
	}
	return 0;
}

/*
 * Frames that the kernel itself counts since boot, whatever their order. It
 * counts claims when they are given back, and when they are taken only those
 * that come from a free list.
 */
static int kernel_frames(unsigned long frames[RAMPART_FLOWS])
{
	unsigned long *events;
	unsigned int zone;

	events = kcalloc(NR_VM_EVENT_ITEMS, sizeof(*events), GFP_KERNEL);
	if (!events)
		return -ENOMEM;
	all_vm_events(events);
	frames[RAMPART_ALLOCATED] = 0;
	for (zone = 0; zone <= ZONE_MOVABLE; zone++)
		frames[RAMPART_ALLOCATED] +=
			events[PGALLOC_NORMAL - ZONE_NORMAL + zone];
	frames[RAMPART_FREED] = events[PGFREE];
	kfree(events);
	return 0;
}

/* Blocks that were allocated or freed since the module was loaded. */
unsigned long rampart_demand(enum rampart_count count, int node,
			     unsigned int type, unsigned int order)
{
	unsigned long sum = 0;
	int cpu;

	if (!blocks[node])
		return 0;
	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(blocks[node], cpu)->of[count][type][order]);
	return sum;
}

static unsigned long seen_frames(enum rampart_count flow)
{
	unsigned long sum = 0;
	unsigned int type, order;
	int node;

	for (node = 0; node < nr_node_ids; node++)
		for (type = 0; type < MIGRATE_TYPES; type++)
			for (order = 0; order < NR_PAGE_ORDERS; order++)
				sum += rampart_demand(flow, node, type, order)
				       << order;
	return sum;
}

/*
 * Frames since the module was loaded, by the kernel's sums and as the probes
 * saw them. The kernel's are read first at load and last here, so that what
 * was missed is never told as less than it is.
 */
int rampart_demand_compare(unsigned long kernel[RAMPART_FLOWS],
			   unsigned long seen[RAMPART_FLOWS])
{
	unsigned long from_lists, returned;
	struct rampart_new_tally new;
	enum rampart_count flow;
	int error;

	for (flow = 0; flow < RAMPART_FLOWS; flow++)
		seen[flow] = seen_frames(flow);
	error = kernel_frames(kernel);
	if (error)
		return error;
	for (flow = 0; flow < RAMPART_FLOWS; flow++)
		kernel[flow] -= before[flow];
	from_lists = atomic_long_read(&listed);
	kernel[RAMPART_ALLOCATED] -= min(from_lists, kernel[RAMPART_ALLOCATED]);
	new = rampart_new_tally();
	returned = rampart_claims_tally().returned + new.tested + new.untested +
		   atomic_long_read(&beside_taken);
	kernel[RAMPART_FREED] -= min(returned, kernel[RAMPART_FREED]);
	return 0;
}

int rampart_demand_begin(void)
{
	int error;

	error = alloc_blocks();
	if (error)
		return error;
	error = kernel_frames(before);
	if (!error)
		error = begin_probes();
	if (error)
		free_blocks();
	return error;
}

void rampart_demand_end(void)
{
	end_probes(ARRAY_SIZE(probes));
	free_blocks();
}
