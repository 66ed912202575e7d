// SPDX-License-Identifier: GPL-2.0
/*
 * The window: the owner's view of the frames that it has claimed.
 *
 * Problem: the owner tests frames with loops of its own, so it must see them;
 * and it must see no frame that it has not claimed, or no longer has.
 *
 * Idea: a mapping of the device shows physical memory, each frame at its own
 * address: the page at offset n * PAGE_SIZE is frame n. It is empty at first. A
 * touch of a claimed frame maps it and its neighbours in the claim; a touch of
 * any other is a SIGBUS. When a claim ends, its frames are unmapped first. A
 * mapping never shows a claim that began after the newest one of the thread
 * that made the mapping.
 *
 * Why so: neighbours in memory are neighbours in the mapping, so a test can run
 * across them; no second numbering has to agree with the first. The kernel
 * sees no page behind such a mapping: nothing can pin it, copy it into a child
 * or dump it. A thread whose claim is gone, and which does not know it yet,
 * must not write to frames that another thread of the owner has claimed since:
 * both would find them bad.
 */
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

/* Maps what one page table has of the claim, the touched page first. */
static vm_fault_t map_claimed(struct vm_fault *fault,
			      const struct rampart_frames *frames)
{
	struct vm_area_struct *vma = fault->vma;
	unsigned long table = fault->address & PMD_MASK;
	unsigned long from = max(table, vma->vm_start);
	unsigned long end = min(table + PMD_SIZE, vma->vm_end);
	unsigned long address;
	vm_fault_t result;

	result = vmf_insert_pfn(vma, fault->address & PAGE_MASK, fault->pgoff);
	for (address = from; address < end && result == VM_FAULT_NOPAGE;
	     address += PAGE_SIZE) {
		unsigned long frame = linear_page_index(vma, address);

		if (frame >= frames->first &&
		    frame < frames->first + frames->count)
			vmf_insert_pfn(vma, address, frame);
	}
	return result;
}

static vm_fault_t window_fault(struct vm_fault *fault)
{
	const struct rampart_holder *holder =
		fault->vma->vm_file->private_data;
	u64 newest = (unsigned long)fault->vma->vm_private_data;
	struct rampart_frames frames;
	vm_fault_t result;
	unsigned int flags;

	if (fault->vma->vm_mm != holder->mm ||
	    !rampart_claims_lock(holder, fault->pgoff, newest, &frames))
		return VM_FAULT_SIGBUS;
	/* No claim can be given up until this ends, so it must not wait for memory. */
	flags = memalloc_noreclaim_save();
	result = map_claimed(fault, &frames);
	memalloc_noreclaim_restore(flags);
	rampart_claims_unlock();
	return result;
}

static const struct vm_operations_struct window_operations = {
	.fault = window_fault,
};

int rampart_window_map(struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	/* A mapping of a device cannot be made one that is copied or dumped. */
	rampart_clear_vm_flags(vma, VM_MAYEXEC);
	rampart_set_vm_flags(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY |
				  VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = (void *)(unsigned long)rampart_claims_newest();
	vma->vm_ops = &window_operations;
	return 0;
}

/* Takes frames out of all mappings of the holder. */
void rampart_window_unmap(const struct rampart_holder *holder,
			  const struct rampart_frames *frames)
{
	unmap_mapping_range(holder->window, PFN_PHYS(frames->first),
			    PFN_PHYS(frames->count), 1);
}
