// SPDX-License-Identifier: GPL-2.0
/*
 * Moves: the content of one page is moved, and its frame is taken.
 *
 * Problem: alloc_contig_range isolates whole pageblocks. One page of the kernel
 * keeps its 511 neighbours out of reach, also those that could be moved.
 *
 * Idea: a driver may move pages of programs to memory of its device. The kernel
 * lets it take a page off its list and out of all programs (migrate_vma_setup by
 * a program's address, migrate_device_range by the frame), and put another one in
 * its place (migrate_device_finalize). That other page is an ordinary one here.
 * The frame is then free, at the front of this CPU's list, and an allocation on
 * this CPU takes it (lists.c).
 *
 * Why so: no other function for this is exported. Between the two, what is done
 * is what the kernel does itself when it moves a page: the owner of its content,
 * a file system for example, copies it. The frame is freed and allocated, and not
 * kept by a reference, so that the kernel uncharges, checks, poisons and counts it.
 *
 * The kernel needs the anon_vma of a program's own page to put the new page in
 * place. So such a page is moved by its address: the mmap_lock keeps it alive.
 */
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/preempt.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

#ifdef CONFIG_DEVICE_MIGRATION

/* So many programs that may have a page are asked for it. */
#define PROGRAMS 16

/* Where a page is in use: at an address of a program, or in a file (no mm). */
struct place {
	struct mm_struct *mm;
	unsigned long address;
};

/* Nothing is locked: this tells what is not worth a try. */
static bool may_be_moved(struct page *page)
{
	return PageLRU(page) && !PageCompound(page) && !PageWriteback(page);
}

/*
 * Locks the anon_vma of a locked page, if that can be had at once. The anon_vma
 * lives while the page is mapped, and from then on while it is locked.
 */
static struct anon_vma *lock_anon_vma(struct folio *folio)
{
	struct anon_vma *anon_vma = NULL, *root;
	unsigned long mapping;

	rcu_read_lock();
	mapping = (unsigned long)READ_ONCE(folio->mapping);
	if ((mapping & PAGE_MAPPING_FLAGS) != PAGE_MAPPING_ANON ||
	    !folio_mapped(folio))
		goto out;
	anon_vma = (void *)(mapping - PAGE_MAPPING_ANON);
	root = READ_ONCE(anon_vma->root);
	if (!down_read_trylock(&root->rwsem)) {
		anon_vma = NULL;
	} else if (!folio_mapped(folio)) {
		/* It may be another one by now, with another root. */
		up_read(&root->rwsem);
		anon_vma = NULL;
	}
out:
	rcu_read_unlock();
	return anon_vma;
}

/* Whether a page may be in a mapping, by its place there. */
static bool has_place(const struct vm_area_struct *vma, unsigned long index,
		      unsigned long *address)
{
	if (index < vma->vm_pgoff ||
	    index - vma->vm_pgoff >= vma_pages((struct vm_area_struct *)vma))
		return false;
	*address = vma->vm_start + ((index - vma->vm_pgoff) << PAGE_SHIFT);
	return true;
}

/* The program number `which` of those that may have a page, which is locked. */
static int find_program(struct folio *folio, unsigned int which,
			struct place *place)
{
	struct anon_vma *anon_vma = lock_anon_vma(folio);
	struct rb_node *node;

	if (!anon_vma)
		return -EBUSY;
	for (node = rb_first_cached(&anon_vma->rb_root); node;
	     node = rb_next(node)) {
		struct vm_area_struct *vma =
			rb_entry(node, struct anon_vma_chain, rb)->vma;

		if (!has_place(vma, folio->index, &place->address) || which--)
			continue;
		if (mmget_not_zero(vma->vm_mm))
			place->mm = vma->vm_mm;
		break;
	}
	anon_vma_unlock_read(anon_vma);
	return place->mm ? 0 : -EBUSY;
}

/* Those of a virtual machine's private memory, for one, must stay. */
static bool is_of_file(struct folio *folio)
{
	struct address_space *mapping = folio_mapping(folio);

	return !folio_test_anon(folio) && mapping &&
	       !mapping_unevictable(mapping);
}

static int find_place(struct page *page, unsigned int which,
		      struct place *place)
{
	struct folio *folio;
	int error = -EBUSY;

	place->mm = NULL;
	if (!get_page_unless_zero(page))
		return -EBUSY;
	folio = page_folio(page);
	if (folio_trylock(folio)) {
		if (folio_test_anon(folio) && !folio_test_ksm(folio))
			error = find_program(folio, which, place);
		else if (is_of_file(folio) && !which)
			error = 0;
		folio_unlock(folio);
	}
	put_page(page);
	return error;
}

/* Both are locked; no program sees the source. */
static int move_content(struct folio *target, struct folio *source)
{
	struct address_space *mapping = folio_mapping(source);
	int error;

	if (folio_test_large(source) || folio_test_writeback(source) ||
	    (!mapping && folio_test_private(source)))
		return -EBUSY;
	if (!mapping)
		error = migrate_folio(NULL, target, source, MIGRATE_SYNC);
	else if (mapping->a_ops->migrate_folio)
		error = mapping->a_ops->migrate_folio(mapping, target, source,
						      MIGRATE_SYNC);
	else
		error = -EBUSY;
	/* A page of a program keeps it until it is freed. */
	if (!error && !folio_test_anon(source))
		source->mapping = NULL;
	return error;
}

/* Takes the page out of use, and tells in `from` whether it did. Clears `to`. */
static void begin_of_program(const struct place *place, unsigned long *from,
			     unsigned long *to)
{
	struct migrate_vma range = {
		.vma = find_vma(place->mm, place->address),
		.start = place->address,
		.end = place->address + PAGE_SIZE,
		.src = from,
		.dst = to,
		.flags = MIGRATE_VMA_SELECT_SYSTEM,
	};

	*from = 0;
	if (range.vma && range.vma->vm_start <= place->address)
		migrate_vma_setup(&range);
}

/* Moves what is in the page to the target, which is locked and gets unlocked. */
static bool move_locked(struct page *page, const struct place *place,
			struct page *target)
{
	unsigned long from, to;
	bool moved;

	if (place->mm)
		begin_of_program(place, &from, &to);
	else
		migrate_device_range(&from, page_to_pfn(page), 1);
	to = migrate_pfn(page_to_pfn(target));
	moved = from & MIGRATE_PFN_MIGRATE &&
		migrate_pfn_to_page(from) == page &&
		!folio_test_anon(page_folio(page)) == !place->mm &&
		!move_content(page_folio(target), page_folio(page));
	if (!moved)
		from &= ~MIGRATE_PFN_MIGRATE;
	migrate_device_finalize(&from, &to, 1);
	return moved;
}

static int move_to(struct page *page, const struct place *place,
		   struct page *target)
{
	bool moved = false;

	lock_page(target);
	if (!place->mm) {
		moved = move_locked(page, place, target);
	} else if (mmap_read_trylock(place->mm)) {
		moved = move_locked(page, place, target);
		mmap_read_unlock(place->mm);
	} else {
		unlock_page(target);
		__free_page(target);
	}
	return moved ? 0 : -EBUSY;
}

static struct page *new_target(struct page *page)
{
	return alloc_pages_node(page_to_nid(page),
				GFP_HIGHUSER_MOVABLE | __GFP_THISNODE |
					__GFP_NORETRY | __GFP_NOWARN,
				0);
}

/* When this succeeds, the page is free. */
static int move(struct page *page)
{
	unsigned int which;
	int error = -EBUSY;

	for (which = 0; which < PROGRAMS && error == -EBUSY; which++) {
		/* First, since an allocation may take a while. */
		struct page *target = new_target(page);
		struct place place;

		if (!target)
			return -ENOMEM;
		if (find_place(page, which, &place)) {
			__free_page(target);
			break;
		}
		error = move_to(page, &place, target);
		if (place.mm)
			mmput_async(place.mm);
	}
	/* Some kernels have added it to a list of pages in use before. */
	rampart_drain_cpu_caches();
	return error;
}

/*
 * Takes a frame in use, which then has one reference. One at a time. It also
 * fails if the content was moved, but somebody else has the frame since.
 */
int rampart_move(unsigned long frame)
{
	struct page *page = pfn_to_page(frame);
	struct rampart_listed list;
	int error;

	if (!may_be_moved(page) || rampart_list_of(frame, &list))
		return -EBUSY;
	/* The frame is freed to the list of the CPU from which it is taken. */
	migrate_disable();
	rampart_demand_ignore(frame, frame + 1);
	error = move(page);
	rampart_demand_ignore(0, 0);
	if (!error)
		error = rampart_list_take_frame(&list, frame);
	migrate_enable();
	return error;
}

#else

int rampart_move(unsigned long frame)
{
	return -EBUSY;
}

#endif
