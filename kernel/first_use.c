// SPDX-License-Identifier: GPL-2.0
/*
 * First use: memory that comes online is tested before anybody uses it.
 *
 * Problem: memory that was added a moment ago was tested by nobody, and is
 * allocated within moments.
 *
 * Idea: the kernel lets one driver say when memory that comes online gets into
 * use. Blocks of it wait here, linked by their own struct pages, until the
 * owner claims and tests them; what is good then gets into use, frame by frame.
 *
 * Why so: the driver is asked while memory hotplug is locked, so it must not
 * wait for a test. Nothing is allocated for what waits: memory may be added
 * because there is none.
 *
 * A machine must not lack memory because nobody tests. So blocks wait only
 * while an owner asks for them, and get into use untested when it is gone or
 * stops asking, or when the kernel is about to kill a program because memory has
 * run out; except where the administrator wants them withheld. Frames that get
 * into use untested are counted.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

static char *new_memory = "test";
module_param(new_memory, charp, 0444);
MODULE_PARM_DESC(new_memory, "memory that comes online: \"test\" it before its first use while a program asks for that, \"withhold\" it until one does, or \"use\" it untested");

static const char *const policies[] = {
	[RAMPART_NEW_USE] = "use",
	[RAMPART_NEW_TEST] = "test",
	[RAMPART_NEW_WITHHOLD] = "withhold",
};

static enum rampart_new_policy policy;

/* What is below it. Nothing is allocated while it is held. */
static DEFINE_MUTEX(waiting_lock);
static LIST_HEAD(waiting); /* first pages of blocks, whose private is the order */
static const struct rampart_holder *asker; /* who tests what waits */
static unsigned long asked; /* jiffies: when it last showed that it goes on */
static struct rampart_new_tally tally;

/* Whether somebody tests what waits, and goes on. */
static bool is_asked(void)
{
	lockdep_assert_held(&waiting_lock);
	return asker && time_before(jiffies, asked + rampart_claim_time());
}

static struct rampart_frames frames_of(const struct page *block)
{
	struct rampart_frames frames = {
		page_to_pfn(block), 1UL << page_private(block)
	};

	return frames;
}

/* Takes a block off the list. */
static struct rampart_frames take(struct page *block)
{
	struct rampart_frames frames = frames_of(block);

	lockdep_assert_held(&waiting_lock);
	list_del(&block->lru);
	set_page_private(block, 0);
	tally.waiting -= frames.count;
	return frames;
}

static void add(struct page *block, unsigned int order)
{
	unsigned long i;

	lockdep_assert_held(&waiting_lock);
	for (i = 0; i < 1UL << order; i++)
		rampart_ages_hold(page_to_pfn(block) + i);
	set_page_private(block, order);
	list_add_tail(&block->lru, &waiting);
	tally.waiting += 1UL << order;
}

/* Returns how many frames it were. */
static unsigned long use_untested(struct page *block)
{
	struct rampart_frames frames = take(block);

	tally.untested += frames.count;
	rampart_online_block(pfn_to_page(frames.first), ilog2(frames.count));
	return frames.count;
}

/* What waits in a part of memory gets into use untested. */
static unsigned long use_part_untested(const struct rampart_frames *part)
{
	struct page *block, *next;
	unsigned long used = 0;

	lockdep_assert_held(&waiting_lock);
	list_for_each_entry_safe(block, next, &waiting, lru) {
		struct rampart_frames frames = frames_of(block);

		if (rampart_frames_overlap(&frames, part))
			used += use_untested(block);
	}
	return used;
}

static const struct rampart_frames everywhere = { 0, ULONG_MAX };

static unsigned long use_all_untested(void)
{
	if (policy == RAMPART_NEW_WITHHOLD)
		return 0;
	return use_part_untested(&everywhere);
}

/* A block has come online; its frames have one reference each. */
static void see_online(struct page *block, unsigned int order)
{
	mutex_lock(&waiting_lock);
	rampart_mark_offline(block, order);
	add(block, order);
	if (!is_asked())
		use_all_untested();
	mutex_unlock(&waiting_lock);
	rampart_limit_time();
}

static struct page *first_of(int node)
{
	struct page *block;

	lockdep_assert_held(&waiting_lock);
	list_for_each_entry(block, &waiting, lru) {
		/* It waits a moment before it counts as online. */
		if (page_to_nid(block) == node &&
		    pfn_to_online_page(page_to_pfn(block)))
			return block;
	}
	return NULL;
}

/*
 * Nobody but the kernel may see what was in the frame before. It may not be in
 * the kernel's own mapping (debug_pagealloc).
 */
static int clear_new(struct page *page)
{
	void *mapped = vm_map_ram(&page, 1, page_to_nid(page));

	if (!mapped)
		return -ENOMEM;
	clear_page(mapped);
	vm_unmap_ram(mapped, 1);
	return 0;
}

/*
 * Takes a block of a node that waits for its test; -ENOENT if none does. Who
 * asks is asked for those that come later.
 */
int rampart_new_take(const struct rampart_holder *holder, int node,
		     struct rampart_frames *frames)
{
	struct page *block;
	unsigned long i;
	int error = 0;

	mutex_lock(&waiting_lock);
	asker = holder;
	asked = jiffies;
	block = first_of(node);
	if (block)
		*frames = take(block);
	mutex_unlock(&waiting_lock);
	if (!block)
		return -ENOENT;
	for (i = 0; i < frames->count && !error; i++) {
		error = clear_new(block + i);
		cond_resched();
	}
	if (error)
		rampart_new_wait(frames);
	return error;
}

/* A block that was taken waits again, if somebody still asks. */
void rampart_new_wait(const struct rampart_frames *frames)
{
	mutex_lock(&waiting_lock);
	add(pfn_to_page(frames->first), ilog2(frames->count));
	if (!is_asked())
		use_all_untested();
	mutex_unlock(&waiting_lock);
}

/* A frame of a block that was taken gets into use. */
void rampart_new_use(struct page *page, bool tested)
{
	mutex_lock(&waiting_lock);
	if (tested)
		tally.tested++;
	else
		tally.untested++;
	mutex_unlock(&waiting_lock);
	rampart_online_block(page, 0);
}

/* A bad one never does, but counts as memory of its zone, as others do. */
void rampart_new_keep(struct page *page)
{
	__ClearPageOffline(page);
	adjust_managed_page_count(page, 1);
}

/* The holder asks no longer. */
void rampart_new_forget(const struct rampart_holder *holder)
{
	mutex_lock(&waiting_lock);
	if (asker == holder) {
		asker = NULL;
		use_all_untested();
	}
	mutex_unlock(&waiting_lock);
}

/* The holder goes on. */
void rampart_new_renew(const struct rampart_holder *holder)
{
	mutex_lock(&waiting_lock);
	if (asker == holder)
		asked = jiffies;
	mutex_unlock(&waiting_lock);
}

/* What waits is used if nobody goes on; returns whether there is more to look at. */
bool rampart_new_look(void)
{
	bool waits;

	mutex_lock(&waiting_lock);
	waits = is_asked() && !list_empty(&waiting);
	if (!is_asked())
		use_all_untested();
	mutex_unlock(&waiting_lock);
	return waits;
}

/* Memory is short; returns how many frames this gives. */
unsigned long rampart_new_give_up(void)
{
	unsigned long used;

	mutex_lock(&waiting_lock);
	used = use_all_untested();
	mutex_unlock(&waiting_lock);
	return used;
}

/* Frames go offline, and then have to be the kernel's; nobody can use them. */
void rampart_new_leave(const struct rampart_frames *frames)
{
	mutex_lock(&waiting_lock);
	use_part_untested(frames);
	mutex_unlock(&waiting_lock);
}

struct rampart_new_tally rampart_new_tally(void)
{
	struct rampart_new_tally copy;

	mutex_lock(&waiting_lock);
	copy = tally;
	copy.policy = policy == RAMPART_NEW_TAKEN ? "taken" : policies[policy];
	mutex_unlock(&waiting_lock);
	return copy;
}

/* Frames that wait on a node. */
unsigned long rampart_new_waiting(int node)
{
	struct page *block;
	unsigned long frames = 0;

	mutex_lock(&waiting_lock);
	list_for_each_entry(block, &waiting, lru)
		frames += page_to_nid(block) == node ? frames_of(block).count : 0;
	mutex_unlock(&waiting_lock);
	return frames;
}

#ifdef CONFIG_MEMORY_HOTPLUG
static int see_all(void)
{
	return set_online_page_callback(see_online);
}

static void see_no_longer(void)
{
	restore_online_page_callback(see_online);
}
#else
static int see_all(void)
{
	return -EOPNOTSUPP;
}

static void see_no_longer(void)
{
}
#endif

int rampart_new_begin(void)
{
	int chosen = match_string(policies, ARRAY_SIZE(policies), new_memory);

	if (chosen < 0) {
		pr_err("new_memory=%s: it is use, test or withhold\n",
		       new_memory);
		return -EINVAL;
	}
	policy = chosen;
	if (policy != RAMPART_NEW_USE && see_all()) {
		pr_info("memory that comes online is not tested before its first use: another driver hands it out\n");
		policy = RAMPART_NEW_TAKEN;
	}
	return 0;
}

void rampart_new_end(void)
{
	if (policy == RAMPART_NEW_USE || policy == RAMPART_NEW_TAKEN)
		return;
	see_no_longer();
	mutex_lock(&waiting_lock);
	use_part_untested(&everywhere);
	mutex_unlock(&waiting_lock);
}
