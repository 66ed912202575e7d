// SPDX-License-Identifier: GPL-2.0
/*
 * What ends claims that nobody gives back: too little memory, memory that goes
 * offline, and time.
 *
 * Problem: claimed frames are missing elsewhere. The owner may be stopped, and
 * may be the last to hear that memory is short.
 *
 * Idea: the kernel asks for memory by three ways, and each gives claims back
 * without the owner: a shrinker, the oldest claims first; a notifier of the
 * out-of-memory killer, all claims; a notifier of hotplug, the claims in the
 * part that goes. A timer gives back what is older than a limit.
 *
 * Why so: a test that is lost costs a repetition, memory that is missing may
 * cost a program its life.
 */
#include <linux/jiffies.h>
#include <linux/memory.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/oom.h>
#include <linux/shrinker.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "rampart.h"

static unsigned int claim_seconds = 30;
module_param(claim_seconds, uint, 0644);
MODULE_PARM_DESC(claim_seconds, "after so many seconds a claim is given back without its owner");

/* In jiffies. */
unsigned long rampart_claim_time(void)
{
	return (unsigned long)READ_ONCE(claim_seconds) * HZ;
}

/*
 * After the out-of-memory killer gave way to what claims gave back, there are
 * no claims for a while: else it would give way again and again.
 */
#define SHORT_FOR (10 * HZ)
static unsigned long short_until; /* jiffies; 0: never was */

static struct shrinker *shrinker;

static unsigned long count_claimed(struct shrinker *unused,
				   struct shrink_control *control)
{
	return rampart_claims_tally().held ?: SHRINK_EMPTY;
}

static unsigned long give_some(struct shrinker *unused,
			       struct shrink_control *control)
{
	return rampart_claims_give_up(control->nr_to_scan,
				      RAMPART_LOST_PRESSURE);
}

static int give_all(struct notifier_block *block, unsigned long unused,
		    void *data)
{
	unsigned long *freed = data;

	WRITE_ONCE(short_until, (jiffies + SHORT_FOR) ?: 1);
	*freed += rampart_claims_give_up(ULONG_MAX, RAMPART_LOST_PRESSURE);
	*freed += rampart_new_give_up();
	return NOTIFY_OK;
}

static struct notifier_block killer = { .notifier_call = give_all };

static int see_offline(struct notifier_block *block, unsigned long action,
		       void *data)
{
	const struct memory_notify *memory = data;
	struct rampart_frames none = { 0, 0 };
	struct rampart_frames frames = {
		memory->start_pfn, memory->nr_pages
	};

	switch (action) {
	case MEM_GOING_OFFLINE:
		return notifier_from_errno(rampart_claims_leave(&frames));
	case MEM_OFFLINE:
	case MEM_CANCEL_OFFLINE:
		rampart_claims_leave(&none);
	}
	return NOTIFY_OK;
}

static struct notifier_block offline = { .notifier_call = see_offline };

static void end_old_claims(struct work_struct *work);
static DECLARE_DELAYED_WORK(timer, end_old_claims);

static void end_old_claims(struct work_struct *work)
{
	bool others = rampart_claims_give_up_older(rampart_claim_time());

	if (rampart_new_look() || others)
		rampart_limit_time();
}

/* To be called when there is a claim, or memory waits: looks at its age each second. */
void rampart_limit_time(void)
{
	schedule_delayed_work(&timer, HZ);
}

/* Whether the out-of-memory killer was about to run a moment ago. */
bool rampart_memory_was_short(void)
{
	unsigned long until = READ_ONCE(short_until);

	return until && time_before(jiffies, until);
}

int rampart_pressure_begin(void)
{
	int error;

	shrinker = rampart_add_shrinker(count_claimed, give_some);
	if (IS_ERR(shrinker))
		return PTR_ERR(shrinker);
	error = register_oom_notifier(&killer);
	if (error)
		goto remove_shrinker;
	error = register_memory_notifier(&offline);
	if (error)
		goto remove_oom_notifier;
	return 0;

remove_oom_notifier:
	unregister_oom_notifier(&killer);
remove_shrinker:
	rampart_remove_shrinker(shrinker);
	return error;
}

void rampart_pressure_end(void)
{
	unregister_memory_notifier(&offline);
	unregister_oom_notifier(&killer);
	rampart_remove_shrinker(shrinker);
	cancel_delayed_work_sync(&timer);
}
