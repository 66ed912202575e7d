// SPDX-License-Identifier: GPL-2.0
/*
 * Ages: when each frame was last tested [Rahman16, figure 2].
 *
 * Problem: whether a frame's test is still good decides whether it is tested
 * again. Marks on the kernel's free blocks are lost when blocks are split and
 * merged, and a program that tests may end while the marks should stay.
 *
 * Idea: a table of the module's own, 4 bytes for each frame, allocated for
 * each section of memory (128 MiB) that is online. An entry has the second in
 * which the frame was tested, whether it was freed since then, and whether it is
 * free now: the kernel has no mark for free frames on per-CPU lists.
 *
 * Why so: the table costs a thousandth of the memory, and one write for each
 * frame that is allocated or freed. A frame is freed, allocated or claimed by
 * one user at a time, so that its entry needs no lock.
 */
#include <linux/ktime.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/xarray.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/* Section number to a u32 for each of its frames. */
static DEFINE_XARRAY(sections);
static DEFINE_MUTEX(sections_lock);

/* Frame numbers that may have an entry are below it. */
static unsigned long frames_end;

/* In seconds; a lifetime of 0 never ends. */
static struct rampart_lifetime lifetime;

static u32 *entry_of(unsigned long frame)
{
	u32 *section = xa_load(&sections, pfn_to_section_nr(frame));

	return section ? section + (frame & (PAGES_PER_SECTION - 1)) : NULL;
}

static u32 now(void)
{
	/* Allocations come also while the clock is suspended, when others warn. */
	return (u32)(ktime_get_mono_fast_ns() / NSEC_PER_SEC) + 1;
}

static bool is_good(u32 entry)
{
	u32 tested = entry & RAMPART_AGE_TESTED;

	if (!tested || tested == RAMPART_AGE_BAD)
		return false;
	return !lifetime.seconds ||
	       now() - tested + lifetime.margin < lifetime.seconds;
}

static void see(u32 entry, bool *good, bool *unfreed)
{
	*good &= is_good(entry);
	*unfreed &= !(entry & RAMPART_AGE_FREED);
}

/* Whether the test of each frame of a block is good, and none was freed since. */
void rampart_ages_see(unsigned long first, unsigned long frames, bool *good,
		      bool *unfreed)
{
	unsigned long frame;

	*good = true;
	*unfreed = true;
	for (frame = first; frame < first + frames; frame++)
		see(rampart_age(frame), good, unfreed);
	*unfreed &= *good;
}

/* Whether a test of a block is not good, or older than so many seconds. */
bool rampart_ages_are_due(unsigned long first, unsigned long frames, u32 older)
{
	unsigned long frame;

	for (frame = first; frame < first + frames; frame++) {
		u32 entry = rampart_age(frame);

		if (!is_good(entry) ||
		    now() - (entry & RAMPART_AGE_TESTED) > older)
			return true;
	}
	return false;
}

/*
 * A block is freed. Returns whether its first frame was held by a claim: then
 * it is the module that gives it back, and the frame is not held any longer.
 */
bool rampart_ages_free(unsigned long first, unsigned long frames)
{
	unsigned long frame;
	bool held = false;

	for (frame = first; frame < first + frames; frame++) {
		u32 *entry = entry_of(frame);
		u32 was;

		if (!entry)
			continue;
		was = READ_ONCE(*entry);
		if (was & RAMPART_AGE_HELD) {
			held |= frame == first;
			was &= ~RAMPART_AGE_HELD;
		} else {
			was |= RAMPART_AGE_FREED;
		}
		WRITE_ONCE(*entry, was | RAMPART_AGE_FREE);
	}
	return held;
}

/* A block is allocated; tells the same as rampart_ages_see(). */
void rampart_ages_allocate(unsigned long first, unsigned long frames,
			   bool *good, bool *unfreed)
{
	unsigned long frame;

	*good = true;
	*unfreed = true;
	for (frame = first; frame < first + frames; frame++) {
		u32 *entry = entry_of(frame);
		u32 was = entry ? READ_ONCE(*entry) : 0;

		see(was, good, unfreed);
		if (was & RAMPART_AGE_FREE)
			WRITE_ONCE(*entry, was & ~RAMPART_AGE_FREE);
	}
	*unfreed &= *good;
}

void rampart_ages_hold(unsigned long frame)
{
	u32 *entry = entry_of(frame);

	if (entry)
		WRITE_ONCE(*entry, (READ_ONCE(*entry) & ~RAMPART_AGE_FREE) |
					   RAMPART_AGE_HELD);
}

/* It is held no longer, though it was not freed. */
void rampart_ages_release(unsigned long frame)
{
	u32 *entry = entry_of(frame);

	if (entry)
		WRITE_ONCE(*entry, READ_ONCE(*entry) & ~RAMPART_AGE_HELD);
}

/*
 * The verdict on a frame that is held; a bad one is not held any longer, since
 * it is never given back.
 */
void rampart_ages_judge(unsigned long frame, enum rampart_verdict verdict)
{
	u32 *entry = entry_of(frame);

	if (!entry)
		return;
	if (verdict == RAMPART_IS_GOOD)
		WRITE_ONCE(*entry, now() | RAMPART_AGE_HELD);
	else if (verdict == RAMPART_IS_BAD)
		WRITE_ONCE(*entry, RAMPART_AGE_BAD);
}

/* The entry of a frame; 0 where there is no memory. */
u32 rampart_age(unsigned long frame)
{
	const u32 *entry = entry_of(frame);

	return entry ? READ_ONCE(*entry) : 0;
}

/* The frames that have entries are below it. */
unsigned long rampart_ages_frames(void)
{
	return READ_ONCE(frames_end);
}

int rampart_ages_set_lifetime(const struct rampart_lifetime *new)
{
	if (new->seconds && new->margin >= new->seconds)
		return -EINVAL;
	WRITE_ONCE(lifetime.margin, new->margin);
	WRITE_ONCE(lifetime.seconds, new->seconds);
	return 0;
}

struct rampart_lifetime rampart_ages_lifetime(void)
{
	return lifetime;
}

/* Memory that comes online was tested by nobody, whatever was there before. */
static int begin_section(unsigned long number, int node)
{
	u32 *section;
	int error = 0;

	mutex_lock(&sections_lock);
	section = xa_load(&sections, number);
	if (section) {
		memset(section, 0, PAGES_PER_SECTION * sizeof(*section));
	} else {
		section = kvzalloc_node(PAGES_PER_SECTION * sizeof(*section),
					GFP_KERNEL, node);
		error = section ? xa_err(xa_store(&sections, number, section,
						  GFP_KERNEL)) : -ENOMEM;
		if (error)
			kvfree(section);
		else
			frames_end = max(frames_end,
					 section_nr_to_pfn(number + 1));
	}
	mutex_unlock(&sections_lock);
	return error;
}

static int begin_frames(unsigned long first, unsigned long frames)
{
	unsigned long number;
	int error = 0;

	for (number = pfn_to_section_nr(first);
	     number <= pfn_to_section_nr(first + frames - 1) && !error;
	     number++)
		error = begin_section(number, pfn_to_nid(first));
	return error;
}

static int see_hotplug(struct notifier_block *block, unsigned long action,
		       void *data)
{
	const struct memory_notify *memory = data;

	if (action != MEM_GOING_ONLINE)
		return NOTIFY_DONE;
	return notifier_from_errno(begin_frames(memory->start_pfn,
						memory->nr_pages));
}

static struct notifier_block hotplug = { .notifier_call = see_hotplug };

static int begin_node(int node)
{
	unsigned long number;
	int error = 0;

	if (!node_spanned_pages(node))
		return 0;
	for (number = pfn_to_section_nr(node_start_pfn(node));
	     number <= pfn_to_section_nr(node_end_pfn(node) - 1) && !error;
	     number++)
		/* One that came online a moment ago may have its table. */
		if (online_section_nr(number) && !xa_load(&sections, number))
			error = begin_section(number, node);
	return error;
}

int rampart_ages_begin(void)
{
	int node;
	int error = register_memory_notifier(&hotplug);

	for_each_online_node(node) {
		if (!error)
			error = begin_node(node);
	}
	if (error)
		rampart_ages_end();
	return error;
}

void rampart_ages_end(void)
{
	unsigned long number;
	u32 *section;

	unregister_memory_notifier(&hotplug);
	xa_for_each(&sections, number, section)
		kvfree(section);
	xa_destroy(&sections);
}
