// SPDX-License-Identifier: GPL-2.0
/*
 * On demand: a block is tested when it is about to be handed out untested
 * [Rahman16, 4.1].
 *
 * Problem: a test ahead of allocation may come too late: the kernel's own
 * memory is freed and used again within moments.
 *
 * Idea: a kernel with kernel/patches asks before it hands out a block without a
 * valid test. The task that allocates waits; the owner claims the block, tests
 * it, and gives it back with its verdict. A good block is handed out, and of a
 * bad one the good frames go to the free lists.
 *
 * Why so: the kernel needs no test loops of its own. The task may hold locks, so
 * it waits for 13 seconds at most: without a tester, or if it is late, the
 * block is handed out untested, and counted by the call path that asked for it.
 * The owner's own allocations do not wait for the owner, but for those by which
 * it moves content out of claimed frames. These wait for half a second only: the
 * tester's own memory may be among what moves, and then it waits for the move.
 */
#include <linux/completion.h>
#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/page_tests.h>
#include <linux/poison.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/wait.h>

#include "rampart.h"
#include "rampart_abi.h"

/*
 * How long a task waits for a tester to come, and then for its verdict. The
 * tester may have large blocks of other tasks before.
 */
#define UNTIL_CLAIMED (3 * HZ)
#define UNTIL_TESTED (10 * HZ)
#define UNTIL_MOVED (HZ / 2)

/* For so long after a task waited in vain, none waits; after a move, no move. */
#define REST (10 * HZ)
#define REST_OF_MOVES HZ

enum wanted_state { WAITS, CLAIMED, GOOD, KEPT, UNTESTED };

/* A block for which a task waits; it is on the stack of that task. */
struct rampart_wanted {
	struct list_head list;
	struct rampart_frames frames;
	enum wanted_state state;
	bool is_for_move; /* of content by the tester itself */
	struct completion done; /* then it is no longer the tester's */
};

/* What is below it. */
static DEFINE_SPINLOCK(wanted_lock);
static LIST_HEAD(wanted); /* those that wait */
static const struct rampart_holder *tester; /* who asks for them */
static unsigned long asked; /* jiffies: when it last did */
static unsigned long rests_until; /* jiffies */
static unsigned long moves_rest_until; /* jiffies */

static DECLARE_WAIT_QUEUE_HEAD(testers);

static atomic_long_t blocks[RAMPART_DEMANDS];

/* Who was handed untested blocks: return addresses, the innermost first. */
#define CALLERS 256
#define DEPTH 12
static struct caller {
	unsigned long addresses[DEPTH];
	unsigned int depth;
	unsigned long blocks;
} callers[CALLERS];
static DEFINE_RAW_SPINLOCK(callers_lock);

static struct caller *caller_at(const unsigned long *addresses,
				unsigned int depth)
{
	u32 hash = jhash2((const u32 *)addresses,
			  depth * sizeof(*addresses) / sizeof(u32), 0);
	unsigned int tries;

	for (tries = 0; tries < 8; tries++) {
		struct caller *caller = &callers[(hash + tries) % CALLERS];

		if (!caller->depth) {
			memcpy(caller->addresses, addresses,
			       depth * sizeof(*addresses));
			caller->depth = depth;
		}
		if (caller->depth == depth &&
		    !memcmp(caller->addresses, addresses,
			    depth * sizeof(*addresses)))
			return caller;
	}
	return NULL;
}

/* Any context. What finds no place is in the sum of blocks all the same. */
static void count_caller(void)
{
	unsigned long addresses[DEPTH], flags;
	struct caller *caller;
	unsigned int depth;

	/* Not this function, nor the one that called it. */
	depth = stack_trace_save(addresses, DEPTH, 2);
	if (!depth || !raw_spin_trylock_irqsave(&callers_lock, flags))
		return;
	caller = caller_at(addresses, depth);
	if (caller)
		caller->blocks++;
	raw_spin_unlock_irqrestore(&callers_lock, flags);
}

static void count(enum rampart_demand what)
{
	atomic_long_inc(&blocks[what]);
}

static void hand_out_untested(struct page *page, unsigned int order, gfp_t gfp)
{
	if (rampart_demand_is_ignored())
		return;
	count(RAMPART_DEMAND_ATOMIC);
	count_caller();
}

static bool is_of_tester(void)
{
	lockdep_assert_held(&wanted_lock);
	return tester && tester->mm == current->mm;
}

/* Why nobody is asked; RAMPART_DEMANDS if somebody is. */
static enum rampart_demand why_nobody(void)
{
	lockdep_assert_held(&wanted_lock);
	if (!tester || time_before(jiffies, rests_until) ||
	    !time_before(jiffies, asked + rampart_claim_time()))
		return RAMPART_DEMAND_NO_TESTER;
	/*
	 * It might wait for itself; but while it moves content, this is to come
	 * to tested frames.
	 */
	if (is_of_tester() && (!rampart_demand_is_taking() ||
			       time_before(jiffies, moves_rest_until)))
		return RAMPART_DEMAND_OWNER;
	return RAMPART_DEMANDS;
}

/* The tester is late. Afterwards the block is this task's again. */
static void take_back(struct rampart_wanted *block)
{
	bool waits;

	spin_lock(&wanted_lock);
	if (block->is_for_move)
		moves_rest_until = jiffies + REST_OF_MOVES;
	else
		rests_until = jiffies + REST;
	waits = block->state == WAITS;
	if (waits)
		list_del(&block->list);
	spin_unlock(&wanted_lock);
	if (waits) {
		block->state = UNTESTED;
		return;
	}
	do {
		/* A claim that does not exist yet, or no longer, is not found. */
		rampart_claims_give_up_wanted(block);
	} while (!wait_for_completion_timeout(&block->done, HZ / 100 + 1));
}

static bool is_claimed(const struct rampart_wanted *block)
{
	return READ_ONCE(block->state) != WAITS;
}

static void await_verdict(struct rampart_wanted *block)
{
	wake_up(&testers);
	if (wait_for_completion_timeout(&block->done,
					block->is_for_move ? UNTIL_MOVED :
							     UNTIL_CLAIMED))
		return;
	if (!block->is_for_move && is_claimed(block) &&
	    wait_for_completion_timeout(&block->done, UNTIL_TESTED))
		return;
	take_back(block);
}

static bool test(struct page *page, unsigned int order, gfp_t gfp)
{
	struct rampart_wanted block = {
		.frames = { page_to_pfn(page), 1UL << order },
		.state = WAITS,
	};
	enum rampart_demand why;

	init_completion(&block.done);
	spin_lock(&wanted_lock);
	why = why_nobody();
	block.is_for_move = is_of_tester();
	if (why == RAMPART_DEMANDS)
		list_add_tail(&block.list, &wanted);
	spin_unlock(&wanted_lock);
	if (why != RAMPART_DEMANDS) {
		count(why);
		count_caller();
		return true;
	}
	await_verdict(&block);
	if (block.state == UNTESTED) {
		count(block.is_for_move ? RAMPART_DEMAND_OWNER :
					  RAMPART_DEMAND_LATE);
		count_caller();
	} else {
		count(block.state == GOOD ? RAMPART_DEMAND_GOOD :
					    RAMPART_DEMAND_BAD);
	}
	return block.state != KEPT;
}

/* The kernel prefers tested blocks; who takes blocks to test them, others. */
static bool tested(unsigned long frame, unsigned int order)
{
	bool good, unfreed;

	rampart_ages_see(frame, 1UL << order, &good, &unfreed);
	return good != rampart_demand_is_ignored();
}

static struct rampart_wanted *first_of(int node)
{
	struct rampart_wanted *block;

	lockdep_assert_held(&wanted_lock);
	list_for_each_entry(block, &wanted, list) {
		if (pfn_to_nid(block->frames.first) == node)
			return block;
	}
	return NULL;
}

/* The frames become those of a claim: each has a reference, and holds zeros. */
static void prepare(const struct rampart_frames *frames)
{
	unsigned long i;

	for (i = 0; i < frames->count; i++) {
		struct page *page = pfn_to_page(frames->first + i);

		init_page_count(page);
		__SetPageOffline(page);
		rampart_ages_hold(frames->first + i);
		clear_page(page_address(page));
	}
}

/* Takes a block of a node that a task waits for; NULL if there is none. */
struct rampart_wanted *rampart_wanted_take(const struct rampart_holder *holder,
					   int node,
					   struct rampart_frames *frames)
{
	struct rampart_wanted *block;

	spin_lock(&wanted_lock);
	tester = holder;
	asked = jiffies;
	block = first_of(node);
	if (block) {
		list_del(&block->list);
		WRITE_ONCE(block->state, CLAIMED);
	}
	spin_unlock(&wanted_lock);
	if (!block)
		return NULL;
	*frames = block->frames;
	prepare(frames);
	return block;
}

/* Readable while tasks wait for blocks. */
__poll_t rampart_wanted_poll(struct file *file, struct poll_table_struct *table)
{
	__poll_t events;

	poll_wait(file, &testers, table);
	spin_lock(&wanted_lock);
	events = list_empty(&wanted) ? 0 : EPOLLIN | EPOLLRDNORM;
	spin_unlock(&wanted_lock);
	return events;
}

/*
 * What the kernel expects in a free frame. Not by memset(), of which KASAN would
 * complain: the frame is free for it.
 */
static void restore_content(struct page *page)
{
	if (page_poisoning_enabled_static())
		memset64(page_address(page), PAGE_POISON * 0x0101010101010101ULL,
			 PAGE_SIZE / sizeof(u64));
	else if (want_init_on_free())
		clear_page(page_address(page));
}

/* The frames are as the kernel gave them. */
static void hand_back(struct rampart_wanted *block, enum wanted_state state)
{
	unsigned long i;

	for (i = 0; i < block->frames.count; i++) {
		struct page *page = pfn_to_page(block->frames.first + i);

		__ClearPageOffline(page);
		restore_content(page);
		rampart_ages_release(block->frames.first + i);
		set_page_count(page, 0);
	}
	block->state = state;
	complete(&block->done);
}

void rampart_wanted_untested(struct rampart_wanted *block)
{
	hand_back(block, UNTESTED);
}

void rampart_wanted_good(struct rampart_wanted *block)
{
	unsigned long i;

	for (i = 0; i < block->frames.count; i++)
		rampart_ages_judge(block->frames.first + i, RAMPART_IS_GOOD);
	hand_back(block, GOOD);
}

/*
 * A block with bad frames is not handed out: it becomes an allocated one, whose
 * frames the claim frees or keeps one by one.
 */
void rampart_wanted_keep(struct rampart_wanted *block)
{
	struct rampart_frames frames = block->frames;
	unsigned int order = ilog2(frames.count);
	struct page *page = pfn_to_page(frames.first);
	unsigned long i;

	hand_back(block, KEPT);
	page_tests_keep(page, order);
	split_page(page, order);
	for (i = 0; i < frames.count; i++) {
		__SetPageOffline(page + i);
		rampart_ages_hold(frames.first + i);
	}
}

/* The holder asks no longer: nobody waits for it. */
void rampart_wanted_forget(const struct rampart_holder *holder)
{
	struct rampart_wanted *block, *next;

	spin_lock(&wanted_lock);
	if (tester == holder) {
		tester = NULL;
		list_for_each_entry_safe(block, next, &wanted, list) {
			list_del(&block->list);
			block->state = UNTESTED;
			complete(&block->done);
		}
	}
	spin_unlock(&wanted_lock);
}

unsigned long rampart_demands(enum rampart_demand what)
{
	return atomic_long_read(&blocks[what]);
}

/* Whether it is the allocator that is in the way of who allocates. */
static bool is_allocator(const char *function)
{
	return strstr(function, "page_tests") || strstr(function, "alloc_page") ||
	       strstr(function, "get_page_from_freelist") ||
	       strstr(function, "folio_alloc") ||
	       strstr(function, "alloc_folio") ||
	       strstr(function, "get_free_page");
}

/* A line for each way in which untested blocks were asked for. */
ssize_t rampart_demand_callers(char *to)
{
	ssize_t bytes = 0;
	unsigned int i, at;

	for (i = 0; i < CALLERS; i++) {
		const struct caller *caller = &callers[i];
		const char *before = " ";

		if (!READ_ONCE(caller->blocks) || bytes > PAGE_SIZE - 512)
			continue;
		bytes += sysfs_emit_at(to, bytes, "%lu", caller->blocks);
		for (at = 0; at < caller->depth; at++) {
			char name[KSYM_SYMBOL_LEN];

			snprintf(name, sizeof(name), "%ps",
				 (void *)caller->addresses[at]);
			if (is_allocator(name))
				continue;
			bytes += sysfs_emit_at(to, bytes, "%s%s", before, name);
			before = "<";
		}
		bytes += sysfs_emit_at(to, bytes, "\n");
	}
	return bytes;
}

static const struct page_tests tests = {
	.owner = THIS_MODULE,
	.tested = tested,
	.test = test,
	.untested = hand_out_untested,
};

int rampart_on_demand_begin(void)
{
	/* Then blocks that are not handed out yet are in no mapping. */
	if (debug_pagealloc_enabled_static())
		return 0;
	return page_tests_register(&tests);
}

void rampart_on_demand_end(void)
{
	if (!debug_pagealloc_enabled_static())
		page_tests_unregister(&tests);
}
