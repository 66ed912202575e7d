/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that differs between the kernels for which the module is built.
 *
 * Problem: the kernel has no stable interface for modules.
 *
 * Idea: one header asks for the version; no other file does. A kernel that
 * nobody has looked at is refused when the module is built, in one line.
 *
 * Why so: a module that builds by luck may count, and later move, the wrong
 * pages.
 */
#ifndef RAMPART_COMPAT_H
#define RAMPART_COMPAT_H

#include <linux/err.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pageblock-flags.h>
#include <linux/pagevec.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0) || \
	LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#error "rampart.ko is for Linux 6.1 to 6.12"
#endif

#if !defined(CONFIG_64BIT) || !defined(CONFIG_SPARSEMEM) || \
	!defined(CONFIG_NUMA) || !defined(CONFIG_TRACEPOINTS) || \
	!defined(CONFIG_VM_EVENT_COUNTERS) || !defined(CONFIG_CONTIG_ALLOC) || \
	!defined(CONFIG_MMU_NOTIFIER)
#error "rampart.ko needs 64BIT, SPARSEMEM, NUMA, TRACEPOINTS, VM_EVENT_COUNTERS, CONTIG_ALLOC and MMU_NOTIFIER"
#endif

/* With PREEMPT_RT, a lock of a CPU's lists cannot be tried in an interrupt. */
#if !defined(CONFIG_SMP) || defined(CONFIG_PREEMPT_RT)
#error "rampart.ko needs SMP, and cannot be used with PREEMPT_RT"
#endif

/* Orders are 0 to NR_PAGE_ORDERS - 1; the name came in 6.8. */
#ifndef NR_PAGE_ORDERS
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define NR_PAGE_ORDERS MAX_ORDER
#else
#define NR_PAGE_ORDERS (MAX_ORDER + 1)
#endif
#endif

/*
 * The migratetype of the pageblock in which a page lies. The kernel's own
 * get_pageblock_migratetype() is not exported. As there, nothing is locked:
 * the answer may be out of date, and is one of the types all the same.
 */
static inline unsigned int rampart_block_type(const struct page *page)
{
	unsigned long pfn = page_to_pfn(page);
	const unsigned long *flags = section_to_usemap(__pfn_to_section(pfn));
	unsigned long bit = ((pfn & (PAGES_PER_SECTION - 1)) >>
			     pageblock_order) * NR_PAGEBLOCK_BITS;
	unsigned long word = READ_ONCE(flags[bit / BITS_PER_LONG]);

	return (word >> (bit % BITS_PER_LONG)) &
	       ((1UL << PB_migratetype_bits) - 1);
}

/*
 * Locks the lists of free pages that this CPU has of a zone, and stays on it.
 * An allocation and a free that find them locked pass them by, so that either
 * may follow here. The kernel's own functions for this are not exported. Without
 * interrupts: some kernels free pages in them and wait for the lock.
 */
static inline struct per_cpu_pages *rampart_lock_cpu_lists(struct zone *zone)
{
	struct per_cpu_pages *lists;

	local_irq_disable();
	lists = this_cpu_ptr(zone->per_cpu_pageset);
	spin_lock(&lists->lock);
	return lists;
}

static inline void rampart_unlock_cpu_lists(struct per_cpu_pages *lists)
{
	spin_unlock_irq(&lists->lock);
}

/* At each end of a list: with more, its lock would be held for too long. */
#define RAMPART_CPU_LIST_LOOK 256

typedef bool rampart_wants(unsigned long frame, const void *data);

/* A wanted block among the first of a list, or among the last. */
static inline struct page *rampart_find_block(struct list_head *list,
					      rampart_wants *wants,
					      const void *data)
{
	unsigned int looks = RAMPART_CPU_LIST_LOOK;
	struct page *page;

	list_for_each_entry(page, list, pcp_list) {
		if (wants(page_to_pfn(page), data))
			return page;
		if (!--looks)
			break;
	}
	if (looks)
		return NULL;
	list_for_each_entry_reverse(page, list, pcp_list) {
		if (wants(page_to_pfn(page), data))
			return page;
		if (++looks == RAMPART_CPU_LIST_LOOK)
			break;
	}
	return NULL;
}

/* The list of a CPU for such blocks, if it has one. */
static inline struct list_head *rampart_cpu_list(struct per_cpu_pages *lists,
						 unsigned int type,
						 unsigned int order)
{
	if (type >= MIGRATE_PCPTYPES || order > PAGE_ALLOC_COSTLY_ORDER)
		return NULL;
	return &lists->lists[MIGRATE_PCPTYPES * order + type];
}

/*
 * Has a wanted block of these CPU's lists come to the front, from where it is
 * allocated next; returns whether there is one.
 */
static inline bool rampart_bring_to_front(struct per_cpu_pages *lists,
					  unsigned int type, unsigned int order,
					  rampart_wants *wants, const void *data)
{
	struct list_head *list = rampart_cpu_list(lists, type, order);
	struct page *page;

	if (!list || list_empty(list))
		return false;
	spin_lock_irq(&lists->lock);
	page = rampart_find_block(list, wants, data);
	if (page)
		list_move(&page->pcp_list, list);
	spin_unlock_irq(&lists->lock);
	return page;
}

/*
 * Has a wanted block of these CPU's lists come to the end, from where it is
 * allocated last. Waits for nothing: also in an interrupt.
 */
static inline void rampart_send_to_end(struct per_cpu_pages *lists,
				       unsigned int type, unsigned int order,
				       rampart_wants *wants, const void *data)
{
	struct list_head *list = rampart_cpu_list(lists, type, order);
	struct page *page;

	if (!list || !spin_trylock(&lists->lock))
		return;
	page = rampart_find_block(list, wants, data);
	if (page)
		list_move_tail(&page->pcp_list, list);
	spin_unlock(&lists->lock);
}

/*
 * Pages that this CPU is about to add to lists of pages in use, or to take off
 * them, have a reference for that time: it is dropped. A release of no pages does
 * this first; pagevecs became batches of folios in 6.5.
 */
static inline void rampart_drain_cpu_caches(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	struct pagevec none;

	pagevec_init(&none);
	__pagevec_release(&none);
#else
	struct folio_batch none;

	folio_batch_init(&none);
	__folio_batch_release(&none);
#endif
}

/*
 * Since 6.11 frames that come online are marked offline until they are in use;
 * before, as reserved. So marked, their memory block can go offline again.
 */
static inline void rampart_mark_offline(struct page *block, unsigned int order)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	unsigned long i;

	for (i = 0; i < 1UL << order; i++) {
		ClearPageReserved(block + i);
		__SetPageOffline(block + i);
	}
#endif
}

/* A block that came online gets into use. */
static inline void rampart_online_block(struct page *block, unsigned int order)
{
#ifdef CONFIG_MEMORY_HOTPLUG
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
	unsigned long i;

	for (i = 0; i < 1UL << order; i++)
		__ClearPageOffline(block + i);
#endif
	generic_online_page(block, order);
#endif
}

/* Flags of a mapping can no longer be written as a field since 6.3. */
static inline void rampart_set_vm_flags(struct vm_area_struct *vma,
					unsigned long flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags |= flags;
#else
	vm_flags_set(vma, flags);
#endif
}

static inline void rampart_clear_vm_flags(struct vm_area_struct *vma,
					  unsigned long flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags &= ~flags;
#else
	vm_flags_clear(vma, flags);
#endif
}

typedef unsigned long rampart_shrink(struct shrinker *shrinker,
				     struct shrink_control *control);

/* Since 6.7 the kernel allocates shrinkers; before, this is the one of ours. */
static inline struct shrinker *rampart_add_shrinker(rampart_shrink *count,
						    rampart_shrink *scan)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	static struct shrinker ours = { .seeks = DEFAULT_SEEKS };
	int error;

	ours.count_objects = count;
	ours.scan_objects = scan;
	error = register_shrinker(&ours, "rampart");
	return error ? ERR_PTR(error) : &ours;
#else
	struct shrinker *shrinker = shrinker_alloc(0, "rampart");

	if (!shrinker)
		return ERR_PTR(-ENOMEM);
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker_register(shrinker);
	return shrinker;
#endif
}

static inline void rampart_remove_shrinker(struct shrinker *shrinker)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	unregister_shrinker(shrinker);
#else
	shrinker_free(shrinker);
#endif
}

#endif
