// SPDX-License-Identifier: GPL-2.0
/*
 * Claims: chosen frames are taken off the kernel's free lists, or from who
 * uses them, tested by the owner, and given back.
 *
 * Problem: what is tested must be used by nobody else, and must go back
 * whatever becomes of the owner. A verdict that comes too late would judge
 * memory that somebody else has by then.
 *
 * Idea: frames come from ranges that the owner chose (frames.c), block by block
 * from the kernel's free lists (lists.c), from memory that came online and was
 * not used yet (first_use.c), or from a task that is about to get them
 * (on_demand.c). A claim has a number that no later one has; a verdict names it,
 * and is refused when the claim is gone.
 *
 * Why so: a claim ends in one way, whoever ends it, by end_claim(): the owner's
 * mapping of the frames is taken away before the first of them is free.
 */
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pageblock-flags.h>
#include <linux/rbtree.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "claims.h"
#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/*
 * What is below it. Nothing is allocated while it is held, so that memory can
 * be given back when there is none.
 */
static DEFINE_MUTEX(claims_lock);
static struct rb_root claims_by_frame = RB_ROOT;
static LIST_HEAD(claims_by_age); /* the oldest first */
static u64 last_number;
static struct rampart_tally tally;
static unsigned int aside; /* claims */

/* When blocks of the lists of CPUs were asked for last. */
static unsigned long asked; /* jiffies; 0: never */

/*
 * Held for reading while frames are neither free nor in a claim: until a claim
 * of them is there, and from its end until they are free.
 */
static DECLARE_RWSEM(claiming);

/* Frames that go offline: under claims_lock. */
static struct rampart_frames leaving;

static struct claim *claim_with(unsigned long frame)
{
	struct rb_node *node = claims_by_frame.rb_node;

	lockdep_assert_held(&claims_lock);
	while (node) {
		struct claim *claim = rb_entry(node, struct claim, by_frame);

		if (frame < claim->frames.first)
			node = node->rb_left;
		else if (frame >= claim->frames.first + claim->frames.count)
			node = node->rb_right;
		else
			return claim;
	}
	return NULL;
}

static bool begins_before(struct rb_node *one, const struct rb_node *other)
{
	return rb_entry(one, struct claim, by_frame)->frames.first <
	       rb_entry(other, struct claim, by_frame)->frames.first;
}

static bool are_leaving(const struct rampart_frames *frames)
{
	bool are;

	mutex_lock(&claims_lock);
	are = rampart_frames_overlap(frames, &leaving);
	mutex_unlock(&claims_lock);
	return are;
}

/* Returns the number of the claim, which may end as soon as it is there. */
static u64 begin_claim(struct claim *claim)
{
	u64 number;

	mutex_lock(&claims_lock);
	number = ++last_number;
	claim->number = number;
	claim->maker = current->pid;
	claim->since = jiffies;
	rb_add(&claim->by_frame, &claims_by_frame, begins_before);
	list_add_tail(&claim->by_age, &claims_by_age);
	tally.held += claim->frames.count;
	aside += claim->is_aside;
	mutex_unlock(&claims_lock);
	rampart_limit_time();
	return number;
}

static void count_returned(unsigned long frames)
{
	mutex_lock(&claims_lock);
	tally.returned += frames;
	mutex_unlock(&claims_lock);
}

static int claim_frames(struct claim *claim, struct rampart_claim *request)
{
	unsigned long freed;
	int error;

	if (are_leaving(&claim->frames))
		return -EBUSY;
	if (rampart_memory_was_short())
		return -ENOMEM;
	error = rampart_frames_look(&claim->frames, &request->in_use);
	if (error)
		return error;
	if (request->in_use && request->how == RAMPART_CLAIM_FREE)
		return -EBUSY;
	error = rampart_frames_take(&claim->frames, &freed);
	count_returned(freed);
	if (!error)
		request->claim = begin_claim(claim);
	return error;
}

static struct claim *new_claim(struct rampart_holder *holder,
			       enum origin origin, gfp_t flags)
{
	struct claim *claim = kmalloc(sizeof(*claim), flags);

	if (claim) {
		claim->holder = holder;
		claim->origin = origin;
		claim->is_aside = false;
	}
	return claim;
}

int rampart_claim(struct rampart_holder *holder, struct rampart_claim *request)
{
	struct claim *claim;
	int error;

	request->claim = 0;
	request->in_use = 0;
	if (!request->frames || request->frames > RAMPART_CLAIM_MOST ||
	    request->how > RAMPART_CLAIM_MOVE || request->zero ||
	    request->first > PHYS_PFN(PHYS_ADDR_MAX) - request->frames)
		return -EINVAL;
	claim = new_claim(holder, FROM_KERNEL, GFP_KERNEL);
	if (!claim)
		return -ENOMEM;
	claim->frames.first = request->first;
	claim->frames.count = request->frames;
	down_read(&claiming);
	error = claim_frames(claim, request);
	up_read(&claiming);
	if (error)
		kfree(claim);
	return error;
}

/* Which block it is, is known only when it is taken. */
static int claim_block(struct claim *claim, struct rampart_listed *list)
{
	int error;

	if (rampart_memory_was_short())
		return -ENOMEM;
	error = rampart_list_take(list,
				  claim->is_aside ? RAMPART_OF_THIS_CPU :
						    RAMPART_OF_ALL,
				  &claim->frames);
	if (error)
		return error;
	rampart_frames_prepare(&claim->frames);
	if (are_leaving(&claim->frames)) {
		rampart_frames_free(&claim->frames);
		count_returned(claim->frames.count);
		return -EBUSY;
	}
	list->first = claim->frames.first;
	list->frames = claim->frames.count;
	list->claim = begin_claim(claim);
	return 0;
}

static int begin_listed(struct claim *claim, struct rampart_listed *list)
{
	int error;

	/* Memory that goes offline takes both in this order, too. */
	cpus_read_lock();
	down_read(&claiming);
	error = claim_block(claim, list);
	up_read(&claiming);
	cpus_read_unlock();
	if (error)
		kfree(claim);
	return error;
}

static bool is_of(const struct claim *claim, const struct rampart_listed *list)
{
	return claim->list.node == list->node &&
	       claim->list.zone == list->zone &&
	       claim->list.migratetype == list->migratetype &&
	       claim->list.order == list->order;
}

static struct claim *aside_for(const struct rampart_holder *holder,
			       const struct rampart_listed *list)
{
	struct claim *claim;

	lockdep_assert_held(&claims_lock);
	if (!aside)
		return NULL;
	list_for_each_entry(claim, &claims_by_age, by_age) {
		if (claim->is_aside && claim->holder == holder &&
		    is_of(claim, list))
			return claim;
	}
	return NULL;
}

/* The holder gets a block that was set aside for it, if there is one. */
static bool take_aside(const struct rampart_holder *holder,
		       struct rampart_listed *list)
{
	struct claim *claim;

	mutex_lock(&claims_lock);
	WRITE_ONCE(asked, jiffies ?: 1);
	claim = aside_for(holder, list);
	if (claim) {
		claim->is_aside = false;
		aside--;
		/* As if it began now: a mapping from before must not show it. */
		claim->number = ++last_number;
		claim->maker = current->pid;
		claim->since = jiffies;
		list_move_tail(&claim->by_age, &claims_by_age);
		list->first = claim->frames.first;
		list->frames = claim->frames.count;
		list->claim = claim->number;
	}
	mutex_unlock(&claims_lock);
	return claim;
}

/* Claims the first block of a free list, or one of the list of a CPU. */
int rampart_claim_listed(struct rampart_holder *holder,
			 struct rampart_listed *list)
{
	struct claim *claim;
	int error;

	list->first = 0;
	list->claim = 0;
	list->frames = 0;
	error = rampart_list_check(list);
	if (error)
		return error;
	if (list->older && take_aside(holder, list))
		return 0;
	claim = new_claim(holder, FROM_KERNEL, GFP_KERNEL);
	return claim ? begin_listed(claim, list) : -ENOMEM;
}

/* Who asks for them asks at least that often when there are some. */
#define ASKS_WITHIN (10 * HZ)

/* Blocks; more are not needed by a holder that asks. */
#define MOST_ASIDE 256

/* Nothing is locked: there may be a few more. In any context. */
bool rampart_claims_may_be_set_aside(void)
{
	unsigned long last = READ_ONCE(asked);

	return READ_ONCE(aside) < MOST_ASIDE && last &&
	       time_before(jiffies, last + ASKS_WITHIN);
}

/*
 * Takes a block without a valid test from the list of this CPU, before anybody
 * uses it. The holder gets it when it asks.
 */
int rampart_claims_set_aside(struct rampart_holder *holder,
			     struct rampart_listed *list)
{
	struct claim *claim;

	if (!rampart_claims_may_be_set_aside())
		return -EBUSY;
	claim = new_claim(holder, FROM_KERNEL, GFP_NOWAIT | __GFP_NOWARN);
	if (!claim)
		return -ENOMEM;
	claim->is_aside = true;
	claim->list = *list;
	return begin_listed(claim, list);
}

/* A block that was not used yet waits again, unless it goes offline. */
void rampart_wait_again(const struct rampart_frames *frames)
{
	rampart_new_wait(frames);
	if (are_leaving(frames))
		rampart_new_leave(frames);
}

static int clear_answer(struct rampart_node_block *block)
{
	block->first = 0;
	block->claim = 0;
	block->frames = 0;
	return block->node < MAX_NUMNODES && node_online(block->node) ? 0 :
								       -ENXIO;
}

static void begin_claim_of_block(struct claim *claim,
				 struct rampart_node_block *block)
{
	block->first = claim->frames.first;
	block->frames = claim->frames.count;
	block->claim = begin_claim(claim);
}

static int claim_new(struct claim *claim, struct rampart_node_block *block)
{
	int error = rampart_new_take(claim->holder, block->node,
				     &claim->frames);

	if (error)
		return error;
	if (are_leaving(&claim->frames)) {
		rampart_wait_again(&claim->frames);
		return -EBUSY;
	}
	begin_claim_of_block(claim, block);
	return 0;
}

/* Claims a block that came online and was not used yet. */
int rampart_claim_new(struct rampart_holder *holder,
		      struct rampart_node_block *block)
{
	struct claim *claim;
	int error = clear_answer(block);

	if (error)
		return error;
	claim = new_claim(holder, BEFORE_FIRST_USE, GFP_KERNEL);
	if (!claim)
		return -ENOMEM;
	down_read(&claiming);
	error = claim_new(claim, block);
	up_read(&claiming);
	if (error)
		kfree(claim);
	return error;
}

/* Claims a block for which a task waits. */
int rampart_claim_demanded(struct rampart_holder *holder,
			   struct rampart_node_block *block)
{
	struct claim *claim;
	int error = clear_answer(block);

	if (!IS_ENABLED(CONFIG_PAGE_TESTS))
		return -ENOTTY;
	if (error)
		return error;
	claim = new_claim(holder, ON_DEMAND, GFP_KERNEL);
	if (!claim)
		return -ENOMEM;
	claim->wanted = rampart_wanted_take(holder, block->node,
					    &claim->frames);
	if (!claim->wanted) {
		kfree(claim);
		return -ENOENT;
	}
	begin_claim_of_block(claim, block);
	return 0;
}

/* From here on the claim is not there, and nobody sees its frames any longer. */
static void end_claim(struct claim *claim)
{
	lockdep_assert_held(&claims_lock);
	rb_erase(&claim->by_frame, &claims_by_frame);
	list_del(&claim->by_age);
	tally.held -= claim->frames.count;
	aside -= claim->is_aside;
	rampart_window_unmap(claim->holder, &claim->frames);
}

/* What is given back untested. */
static void give_back_untested(const struct claim *claim)
{
	lockdep_assert_held(&claims_lock);
	switch (claim->origin) {
	case BEFORE_FIRST_USE:
		rampart_new_wait(&claim->frames);
		break;
	case ON_DEMAND:
		rampart_wanted_untested(claim->wanted);
		break;
	case FROM_KERNEL:
		tally.returned += claim->frames.count;
		rampart_frames_free(&claim->frames);
	}
}

static void give_up_claim(struct claim *claim, enum rampart_loss loss)
{
	end_claim(claim);
	tally.given_up[loss] += claim->frames.count;
	give_back_untested(claim);
	kfree(claim);
}

/*
 * Gives the oldest claims back, at least so many frames if there are; returns
 * how many it were. A block for which a task waits is that task's already: to
 * give it up would lose its test, and free no memory.
 */
unsigned long rampart_claims_give_up(unsigned long frames,
				     enum rampart_loss loss)
{
	struct claim *claim, *next;
	unsigned long given = 0;

	mutex_lock(&claims_lock);
	list_for_each_entry_safe(claim, next, &claims_by_age, by_age) {
		if (given >= frames)
			break;
		if (claim->origin == ON_DEMAND)
			continue;
		given += claim->frames.count;
		give_up_claim(claim, loss);
	}
	mutex_unlock(&claims_lock);
	return given;
}

/* The task that waits for the block waits no longer; its claim may be gone. */
void rampart_claims_give_up_wanted(const struct rampart_wanted *block)
{
	struct claim *claim;

	mutex_lock(&claims_lock);
	list_for_each_entry(claim, &claims_by_age, by_age) {
		if (claim->origin == ON_DEMAND && claim->wanted == block) {
			give_up_claim(claim, RAMPART_LOST_TIME);
			break;
		}
	}
	mutex_unlock(&claims_lock);
}

/* Gives all claims of a holder back. */
void rampart_claims_give_up_of(const struct rampart_holder *holder)
{
	struct claim *claim, *next;

	mutex_lock(&claims_lock);
	list_for_each_entry_safe(claim, next, &claims_by_age, by_age) {
		if (claim->holder == holder)
			give_up_claim(claim, RAMPART_LOST_OWNER);
	}
	/* The next holder may not ask. */
	WRITE_ONCE(asked, 0);
	mutex_unlock(&claims_lock);
	rampart_new_forget(holder);
	rampart_wanted_forget(holder);
}

/* The time of the holder's claims begins anew. */
void rampart_claims_renew(const struct rampart_holder *holder)
{
	struct claim *claim;

	mutex_lock(&claims_lock);
	list_for_each_entry(claim, &claims_by_age, by_age) {
		if (claim->holder == holder && !claim->is_aside)
			claim->since = jiffies;
	}
	mutex_unlock(&claims_lock);
	rampart_new_renew(holder);
}

/*
 * Gives claims back that are older than `age` jiffies; returns whether there
 * are others.
 */
bool rampart_claims_give_up_older(unsigned long age)
{
	struct claim *claim, *next;
	bool others;

	mutex_lock(&claims_lock);
	list_for_each_entry_safe(claim, next, &claims_by_age, by_age) {
		if (time_before(jiffies, claim->since + age))
			continue;
		give_up_claim(claim, RAMPART_LOST_TIME);
	}
	others = !list_empty(&claims_by_age);
	mutex_unlock(&claims_lock);
	return others;
}

/* Whether all pageblocks are isolated, as they are while they go offline. */
static bool are_isolated(const struct rampart_frames *frames)
{
	unsigned long frame;

	for (frame = frames->first; frame < frames->first + frames->count;
	     frame += pageblock_nr_pages) {
		if (rampart_block_type(pfn_to_page(frame)) != MIGRATE_ISOLATE)
			return false;
	}
	return true;
}

/*
 * Frames go offline, all or none: none of them is claimed when this returns,
 * nor will be until it is called with none. Fails if a claim that was refused
 * has ended the isolation of a pageblock: the kernel would try for ever.
 */
int rampart_claims_leave(const struct rampart_frames *frames)
{
	struct claim *claim, *next;

	mutex_lock(&claims_lock);
	leaving = *frames;
	mutex_unlock(&claims_lock);
	/* A claim that began before is there when this was had. */
	down_write(&claiming);
	up_write(&claiming);
	mutex_lock(&claims_lock);
	list_for_each_entry_safe(claim, next, &claims_by_age, by_age) {
		if (rampart_frames_overlap(&claim->frames, &leaving))
			give_up_claim(claim, RAMPART_LOST_OFFLINE);
	}
	mutex_unlock(&claims_lock);
	rampart_new_leave(frames);
	return are_isolated(frames) ? 0 : -EBUSY;
}

/*
 * Has the claim with a frame stay until rampart_claims_unlock(); false if the
 * holder has none, or one that is newer than the claim with number `newest`.
 */
bool rampart_claims_lock(const struct rampart_holder *holder,
			 unsigned long frame, u64 newest,
			 struct rampart_frames *frames)
{
	const struct claim *claim;

	mutex_lock(&claims_lock);
	claim = claim_with(frame);
	if (claim && claim->holder == holder && !claim->is_aside &&
	    claim->number <= newest) {
		*frames = claim->frames;
		return true;
	}
	mutex_unlock(&claims_lock);
	return false;
}

void rampart_claims_unlock(void)
{
	mutex_unlock(&claims_lock);
}

/* The number of the newest claim of this thread that is there; 0 if none is. */
u64 rampart_claims_newest(void)
{
	struct claim *claim;
	u64 number = 0;

	mutex_lock(&claims_lock);
	list_for_each_entry_reverse(claim, &claims_by_age, by_age) {
		if (!claim->is_aside && claim->maker == current->pid) {
			number = claim->number;
			break;
		}
	}
	mutex_unlock(&claims_lock);
	return number;
}

/* A user that calls everything bad must not use up the machine. */
static bool may_retire(unsigned long frames, u32 flags)
{
	lockdep_assert_held(&claims_lock);
	return flags & RAMPART_FORCE ||
	       tally.retired + frames <= totalram_pages() / 100;
}

static int may_end(const struct rampart_holder *holder,
		   const struct claim *claim,
		   const struct rampart_give_back *verdict,
		   const unsigned long *bad, unsigned long bad_frames)
{
	if (!claim || claim->holder != holder || claim->is_aside ||
	    claim->number != verdict->claim ||
	    claim->frames.first != verdict->first)
		return -ESTALE;
	if (find_next_bit(bad, RAMPART_CLAIM_MOST, claim->frames.count) <
	    RAMPART_CLAIM_MOST)
		return -EINVAL;
	if (bad_frames && !may_retire(bad_frames, verdict->flags))
		return -EDQUOT;
	return 0;
}

static int end_claim_of(struct claim **ended,
			const struct rampart_holder *holder,
			const struct rampart_give_back *verdict,
			const unsigned long *bad)
{
	unsigned long bad_frames = bitmap_weight(bad, RAMPART_CLAIM_MOST);
	struct claim *claim;
	int error;

	mutex_lock(&claims_lock);
	claim = claim_with(verdict->first);
	error = may_end(holder, claim, verdict, bad, bad_frames);
	if (!error) {
		end_claim(claim);
		tally.retired += bad_frames;
		if (claim->origin == FROM_KERNEL ||
		    (claim->origin == ON_DEMAND && bad_frames))
			tally.returned += claim->frames.count - bad_frames;
		if (verdict->flags & RAMPART_TESTED)
			tally.tested += claim->frames.count;
		*ended = claim;
	}
	mutex_unlock(&claims_lock);
	return error;
}

/*
 * Gives a claim back by a verdict on it; `bad` has RAMPART_CLAIM_MOST bits, one
 * for each frame from the claim's first on. If it fails, nothing was done.
 */
int rampart_give_back(const struct rampart_holder *holder,
		      const struct rampart_give_back *verdict,
		      unsigned long *bad)
{
	struct claim *claim;
	unsigned long i;
	int error;

	down_read(&claiming);
	error = end_claim_of(&claim, holder, verdict, bad);
	if (!error)
		rampart_give_frames_back(claim, bad,
					 verdict->flags & RAMPART_TESTED);
	up_read(&claiming);
	if (error)
		return error;
	/* Not under `claiming`: retiring may wait for memory that goes offline. */
	for_each_set_bit(i, bad, RAMPART_CLAIM_MOST)
		rampart_retire(claim->frames.first + i);
	kfree(claim);
	return 0;
}

struct rampart_tally rampart_claims_tally(void)
{
	struct rampart_tally copy;

	mutex_lock(&claims_lock);
	copy = tally;
	mutex_unlock(&claims_lock);
	return copy;
}
