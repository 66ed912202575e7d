// SPDX-License-Identifier: GPL-2.0
/*
 * Recycling: what is freed with an expired test is not used again before it is
 * tested.
 *
 * Problem: a CPU allocates first what was freed last. A frame that the kernel
 * had for longer than a lifetime is handed out again at once, and again and
 * again, until a tester finds it free.
 *
 * Idea: the frame is moved to the end of its per-CPU list [Rahman16, 5.2.3.2].
 * All others of the list are handed out before it. Then a worker sets it aside:
 * it is claimed for the owner of the device, who gets it with its next look at
 * these lists. Frames for programs (movable) are not set aside: they are tested
 * with their pageblocks, of which no frame may be claimed by itself.
 *
 * Why so: the kernel tells of a free before the frame is on the list. So it is
 * moved a moment later, by a timer of that CPU, which waits for no lock. Its runs
 * are at least 200 us apart, and only for an owner of the device: without tests,
 * all tests expire. The end of the list alone is not enough, since a program that
 * frees much at once uses up a list; the worker alone runs too late.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/* From a free to the move; and between two moves of a CPU. */
#define SOON (50 * NSEC_PER_USEC)
#define PAUSE (200 * NSEC_PER_USEC)

/* Blocks that were freed since the last move. Further ones stay where they are. */
#define BLOCKS 16

struct freed {
	struct hrtimer timer;
	u64 moved; /* when it ran last */
	unsigned int cpu;
	unsigned int count;
	struct {
		struct page *page;
		unsigned int order;
	} blocks[BLOCKS];
	struct work_struct work;
	raw_spinlock_t lock; /* the worker may be on another CPU */
	struct rampart_listed lists[BLOCKS]; /* where there are some to set aside */
	unsigned int listed;
};

static DEFINE_PER_CPU(struct freed, freed);

static bool is_page(unsigned long frame, const void *page)
{
	return pfn_to_page(frame) == page;
}

/* The worker is to set a block of this list aside. */
static void list_later(struct freed *mine, unsigned long frame,
		       unsigned int order)
{
	struct rampart_listed list;

	if (rampart_list_of(frame, &list) ||
	    list.migratetype == RAMPART_TYPE_MOVABLE)
		return;
	list.order = order;
	list.older = U32_MAX;
	raw_spin_lock(&mine->lock);
	if (mine->listed < BLOCKS)
		mine->lists[mine->listed++] = list;
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

	while (next_list(one, &list))
		rampart_device_set_aside(&list);
}

/* Runs in the timer's interrupt. The blocks may be allocated again by now. */
static enum hrtimer_restart move_all(struct hrtimer *timer)
{
	struct freed *mine = container_of(timer, struct freed, timer);
	unsigned int i;

	/* If its CPU has gone, so have its lists. */
	for (i = 0; i < mine->count && mine->cpu == smp_processor_id(); i++) {
		struct page *page = mine->blocks[i].page;
		struct zone *zone = page_zone(page);

		rampart_send_to_end(this_cpu_ptr(zone->per_cpu_pageset),
				    rampart_block_type(page),
				    mine->blocks[i].order, is_page, page);
		list_later(mine, page_to_pfn(page), mine->blocks[i].order);
	}
	mine->count = 0;
	mine->moved = ktime_get_mono_fast_ns();
	return HRTIMER_NORESTART;
}

/*
 * A block with an expired test is about to be free. Without interrupts, the
 * clock may be suspended too; then it stays where it is.
 */
void rampart_recycle(struct page *page, unsigned int order)
{
	struct freed *mine;
	u64 next;

	if (irqs_disabled() || !rampart_has_owner())
		return;
	local_irq_disable();
	mine = this_cpu_ptr(&freed);
	if (mine->count < BLOCKS) {
		mine->blocks[mine->count].page = page;
		mine->blocks[mine->count].order = order;
		mine->count++;
	}
	if (mine->count == 1) {
		next = max(ktime_get_mono_fast_ns() + SOON, mine->moved + PAUSE);
		hrtimer_start(&mine->timer, ns_to_ktime(next),
			      HRTIMER_MODE_ABS_PINNED_HARD);
	}
	local_irq_enable();
}

void rampart_recycle_begin(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct freed *one = per_cpu_ptr(&freed, cpu);

		one->cpu = cpu;
		hrtimer_init(&one->timer, CLOCK_MONOTONIC,
			     HRTIMER_MODE_ABS_PINNED_HARD);
		one->timer.function = move_all;
		INIT_WORK(&one->work, set_aside);
		raw_spin_lock_init(&one->lock);
	}
}

/* Nothing is freed to it any longer. */
void rampart_recycle_end(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		hrtimer_cancel(&per_cpu_ptr(&freed, cpu)->timer);
		cancel_work_sync(&per_cpu_ptr(&freed, cpu)->work);
	}
}
