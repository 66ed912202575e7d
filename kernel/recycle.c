// SPDX-License-Identifier: GPL-2.0
/*
 * Recycling: keeps what the kernel frees with an expired test from being used
 * again before it is tested, where that is possible.
 *
 * Problem: a CPU allocates first what was freed last. A frame that the kernel had
 * for longer than a lifetime is handed out again at once, and again and again,
 * until a tester finds it free.
 *
 * Idea: the frame is moved to the end of its per-CPU list, from where it is
 * allocated last, as [Rahman16, 5.2.3.2] does on the free lists. Then a worker
 * claims the blocks without a valid test of that list for the owner of the device,
 * who gets them with the next requests for the list: they are set aside. Frames
 * for programs (movable) are left alone: they are tested with their pageblocks, of
 * which no frame may be claimed by itself.
 *
 * Why so: the kernel tells of a free before the frame is on the list. So it is
 * moved a moment later, by a timer on that CPU, which does not wait for the lock
 * of the list. The end of the list alone is not enough: a program that unmaps much
 * uses up short lists, and from a long list the kernel returns its last blocks to
 * the free lists. The worker alone runs too late. Without an owner that asks, all
 * of this is off: all tests would be expired, and each free would start the timer.
 */
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "rampart.h"
#include "rampart_abi.h"

/* The time from a free to the move, and the least time between two moves. */
#define SOON (50 * NSEC_PER_USEC)
#define PAUSE (200 * NSEC_PER_USEC)

/* A CPU remembers so many between two moves. Further ones stay where they are. */
#define BLOCKS 16

/* What a CPU freed. No page is looked at later: it may have gone offline. */
struct freed {
	struct hrtimer timer;
	struct work_struct work;
	raw_spinlock_t lock; /* the worker may be on another CPU */
	u64 moved; /* when the timer ran last */
	unsigned int cpu;
	unsigned int count; /* of blocks freed since */
	struct {
		struct rampart_listed list;
		unsigned long frame;
	} blocks[BLOCKS];
	unsigned int listed;
	struct rampart_listed lists[BLOCKS]; /* of blocks to set aside */
};

static struct freed __percpu *freed;

/* The worker is to set blocks of this list aside. */
static void list_later(struct freed *mine, const struct rampart_listed *list)
{
	raw_spin_lock(&mine->lock);
	if (mine->listed < BLOCKS)
		mine->lists[mine->listed++] = *list;
	raw_spin_unlock(&mine->lock);
	queue_work_on(mine->cpu, system_highpri_wq, &mine->work);
}

static bool next_list(struct freed *one, struct rampart_listed *list)
{
	bool is_there;

	raw_spin_lock_irq(&one->lock);
	is_there = one->listed;
	if (is_there)
		*list = one->lists[--one->listed];
	raw_spin_unlock_irq(&one->lock);
	return is_there;
}

static void set_aside(struct work_struct *work)
{
	struct freed *one = container_of(work, struct freed, work);
	struct rampart_listed list;

	while (next_list(one, &list)) {
		while (!rampart_device_set_aside(&list))
			;
	}
}

/*
 * Runs in the timer's interrupt. A block may be allocated again by now. If its CPU
 * went offline, the timer runs on another one; then nothing is moved.
 */
static enum hrtimer_restart move_all(struct hrtimer *timer)
{
	struct freed *mine = container_of(timer, struct freed, timer);
	unsigned int i;

	for (i = 0; i < mine->count && mine->cpu == smp_processor_id(); i++) {
		const struct rampart_listed *list = &mine->blocks[i].list;
		unsigned long frame = mine->blocks[i].frame;

		if (!(rampart_age(frame) & RAMPART_AGE_FREE))
			continue;
		/* If it is not on the list yet, the worker finds it there. */
		rampart_list_send_to_end(list, frame);
		list_later(mine, list);
	}
	mine->count = 0;
	mine->moved = ktime_get_mono_fast_ns();
	return HRTIMER_NORESTART;
}

/*
 * A block with an expired test is about to be free. Frees without interrupts are
 * ignored: the clock may be suspended then.
 */
void rampart_recycle(unsigned long frame, unsigned int order)
{
	struct rampart_listed list;
	struct freed *mine;
	u64 next;

	/* A kernel with kernel/patches does not put it on a per-CPU list. */
	if (IS_ENABLED(CONFIG_PAGE_TESTS) || order > PAGE_ALLOC_COSTLY_ORDER ||
	    irqs_disabled() ||
	    !rampart_claims_may_be_set_aside() ||
	    rampart_list_of(frame, &list) ||
	    list.migratetype == RAMPART_TYPE_MOVABLE)
		return;
	list.order = order;
	list.older = U32_MAX; /* only blocks without a valid test */
	local_irq_disable();
	mine = this_cpu_ptr(freed);
	if (mine->count < BLOCKS) {
		mine->blocks[mine->count].list = list;
		mine->blocks[mine->count++].frame = frame;
	}
	if (!hrtimer_is_queued(&mine->timer)) {
		next = max(ktime_get_mono_fast_ns() + SOON, mine->moved + PAUSE);
		hrtimer_start(&mine->timer, ns_to_ktime(next),
			      HRTIMER_MODE_ABS_PINNED_HARD);
	}
	local_irq_enable();
}

int rampart_recycle_begin(void)
{
	unsigned int cpu;

	freed = alloc_percpu(struct freed);
	if (!freed)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct freed *one = per_cpu_ptr(freed, cpu);

		one->cpu = cpu;
		raw_spin_lock_init(&one->lock);
		INIT_WORK(&one->work, set_aside);
		hrtimer_init(&one->timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_ABS_PINNED_HARD);
		one->timer.function = move_all;
	}
	return 0;
}

/* The probes have ended: no timer is started any longer. */
void rampart_recycle_end(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		hrtimer_cancel(&per_cpu_ptr(freed, cpu)->timer);
		cancel_work_sync(&per_cpu_ptr(freed, cpu)->work);
	}
	free_percpu(freed);
}
