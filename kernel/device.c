// SPDX-License-Identifier: GPL-2.0
/*
 * The device, and who may use it.
 *
 * Problem: who has the device takes frames from the whole machine. A
 * descriptor is inherited over fork and exec, and is passed on over sockets, to
 * programs that nobody meant to trust.
 *
 * Idea: one owner at a time. The device is bound to the address space that
 * opened it: from any other, each request is refused. The address space is
 * kept as a name (mmgrab), so that no later one can be taken for it. It is
 * free again when the last descriptor is closed or the address space is gone,
 * whichever comes first: a descriptor that a child or another program still
 * has does not keep it.
 *
 * Why so: a process is not enough, since exec changes the program and not the
 * process. Close-on-exec alone is not enough, since it can be taken off.
 */
#include <linux/bitmap.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "rampart.h"
#include "rampart_abi.h"

static DEFINE_MUTEX(holder_lock);
static struct rampart_holder *holder; /* under holder_lock */

/* Held for reading by who uses the holder without its file. */
static DECLARE_RWSEM(using_holder);

static bool holder_is_alive(void)
{
	lockdep_assert_held(&holder_lock);
	return holder && atomic_read(&holder->mm->mm_users) > 0;
}

static int may_open(void)
{
	if (!capable(CAP_SYS_ADMIN) || !capable(CAP_SYS_RAWIO))
		return -EPERM;
	if (!current->mm)
		return -EINVAL;
	return security_locked_down(LOCKDOWN_DEV_MEM);
}

/* The owner's address space ends, whoever has the descriptor. */
static void see_end(struct mmu_notifier *end, struct mm_struct *mm)
{
	struct rampart_holder *mine =
		container_of(end, struct rampart_holder, end);

	WRITE_ONCE(mine->has_ended, true);
	rampart_claims_give_up_of(mine);
}

static const struct mmu_notifier_ops end_operations = { .release = see_end };

static struct rampart_holder *new_holder(struct file *file)
{
	struct rampart_holder *new = kzalloc(sizeof(*new), GFP_KERNEL);
	int error;

	if (!new)
		return ERR_PTR(-ENOMEM);
	new->end.ops = &end_operations;
	error = mmu_notifier_register(&new->end, current->mm);
	if (error) {
		kfree(new);
		return ERR_PTR(error);
	}
	mmgrab(current->mm);
	new->mm = current->mm;
	new->process = get_task_pid(current, PIDTYPE_TGID);
	new->window = file->f_mapping;
	return new;
}

static void free_holder(struct rampart_holder *old)
{
	/* Gives its claims back, if it did not do so before. */
	mmu_notifier_unregister(&old->end, old->mm);
	put_pid(old->process);
	mmdrop(old->mm);
	kfree(old);
}

static int rampart_open(struct inode *inode, struct file *file)
{
	struct rampart_holder *new;
	int error = may_open();

	if (error)
		return error;
	new = new_holder(file);
	if (IS_ERR(new))
		return PTR_ERR(new);
	mutex_lock(&holder_lock);
	if (holder_is_alive())
		error = -EBUSY;
	else
		WRITE_ONCE(holder, new);
	mutex_unlock(&holder_lock);
	if (error)
		free_holder(new);
	else
		file->private_data = new;
	return error;
}

/* The last reference is gone; the device may have another holder by now. */
static int rampart_release(struct inode *inode, struct file *file)
{
	struct rampart_holder *old = file->private_data;

	mutex_lock(&holder_lock);
	if (holder == old)
		WRITE_ONCE(holder, NULL);
	mutex_unlock(&holder_lock);
	down_write(&using_holder);
	up_write(&using_holder);
	free_holder(old);
	return 0;
}

static long get_info(struct rampart_info __user *to)
{
	struct rampart_info info = {
		.abi = RAMPART_ABI,
		.offers = rampart_offers(),
	};

	return copy_to_user(to, &info, sizeof(info)) ? -EFAULT : 0;
}

static long claim(struct rampart_holder *mine, struct rampart_claim __user *user)
{
	struct rampart_claim request;
	int error;

	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;
	error = rampart_claim(mine, &request);
	/* A claim whose number the owner does not learn ends with its time. */
	if (copy_to_user(user, &request, sizeof(request)))
		return -EFAULT;
	return error;
}

static long claim_listed(struct rampart_holder *mine,
			 struct rampart_listed __user *user)
{
	struct rampart_listed list;
	int error;

	if (copy_from_user(&list, user, sizeof(list)))
		return -EFAULT;
	error = rampart_claim_listed(mine, &list);
	if (copy_to_user(user, &list, sizeof(list)))
		return -EFAULT;
	return error;
}

static long claim_of_node(struct rampart_holder *mine,
			  struct rampart_node_block __user *user,
			  int (*claim)(struct rampart_holder *holder,
				       struct rampart_node_block *block))
{
	struct rampart_node_block block;
	int error;

	if (copy_from_user(&block, user, sizeof(block)))
		return -EFAULT;
	error = claim(mine, &block);
	if (copy_to_user(user, &block, sizeof(block)))
		return -EFAULT;
	return error;
}

/* Sets a bit for each frame in a list of the user's, from the claim's first on. */
static int read_bad(unsigned long *bad, const struct rampart_give_back *verdict)
{
	const u64 __user *list = u64_to_user_ptr(verdict->bad);
	u32 i;

	for (i = 0; i < verdict->bad_frames; i++) {
		u64 frame;

		if (get_user(frame, list + i))
			return -EFAULT;
		if (frame - verdict->first >= RAMPART_CLAIM_MOST)
			return -EINVAL;
		__set_bit(frame - verdict->first, bad);
	}
	return 0;
}

static long give_back(struct rampart_holder *mine,
		      const struct rampart_give_back __user *user)
{
	struct rampart_give_back verdict;
	unsigned long *bad;
	int error;

	if (copy_from_user(&verdict, user, sizeof(verdict)))
		return -EFAULT;
	if (verdict.flags & ~(RAMPART_TESTED | RAMPART_FORCE) ||
	    verdict.bad_frames > RAMPART_CLAIM_MOST)
		return -EINVAL;
	bad = bitmap_zalloc(RAMPART_CLAIM_MOST, GFP_KERNEL);
	if (!bad)
		return -ENOMEM;
	error = read_bad(bad, &verdict);
	if (!error)
		error = rampart_give_back(mine, &verdict, bad);
	bitmap_free(bad);
	return error;
}

static long set_lifetime(const struct rampart_lifetime __user *user)
{
	struct rampart_lifetime lifetime;

	if (copy_from_user(&lifetime, user, sizeof(lifetime)))
		return -EFAULT;
	return rampart_ages_set_lifetime(&lifetime);
}

static long rampart_ioctl(struct file *file, unsigned int request,
			  unsigned long argument)
{
	struct rampart_holder *mine = file->private_data;
	void __user *user = (void __user *)argument;

	if (mine->mm != current->mm)
		return -EPERM;
	switch (request) {
	case RAMPART_GET_INFO:
		return get_info(user);
	case RAMPART_CLAIM:
		return claim(mine, user);
	case RAMPART_CLAIM_LISTED:
		return claim_listed(mine, user);
	case RAMPART_CLAIM_NEW:
		return claim_of_node(mine, user, rampart_claim_new);
	case RAMPART_CLAIM_DEMANDED:
		return claim_of_node(mine, user, rampart_claim_demanded);
	case RAMPART_GIVE_BACK:
		return give_back(mine, user);
	case RAMPART_SET_LIFETIME:
		return set_lifetime(user);
	case RAMPART_RENEW:
		rampart_claims_renew(mine);
		return 0;
	default:
		return -ENOTTY;
	}
}

static int rampart_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rampart_holder *mine = file->private_data;

	if (mine->mm != vma->vm_mm)
		return -EPERM;
	return rampart_window_map(vma);
}

static const struct file_operations rampart_operations = {
	.owner = THIS_MODULE,
	.open = rampart_open,
	.release = rampart_release,
	.unlocked_ioctl = rampart_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = rampart_mmap,
	.poll = rampart_wanted_poll,
	.llseek = noop_llseek,
};

static struct miscdevice rampart_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rampart",
	.mode = 0600,
	.fops = &rampart_operations,
};

/* The process that opened the device; 0 if nobody has it. */
pid_t rampart_owner(void)
{
	pid_t process = 0;

	mutex_lock(&holder_lock);
	if (holder_is_alive())
		process = pid_nr(holder->process);
	mutex_unlock(&holder_lock);
	return process;
}

/*
 * Sets a block aside for the owner, if there is one. Not under holder_lock, for
 * which others wait who open or close the device. Its address space may end
 * meanwhile. To keep that would keep the device, and the module, in use when the
 * process is gone.
 */
int rampart_device_set_aside(struct rampart_listed *list)
{
	struct rampart_holder *mine;
	int error = -ENOENT;

	down_read(&using_holder);
	mine = READ_ONCE(holder);
	if (mine) {
		error = rampart_claims_set_aside(mine, list);
		/* Then its claims may have been given up before this one began. */
		if (READ_ONCE(mine->has_ended))
			rampart_claims_give_up_of(mine);
	}
	up_read(&using_holder);
	return error;
}

int rampart_device_begin(void)
{
	return misc_register(&rampart_device);
}

void rampart_device_end(void)
{
	misc_deregister(&rampart_device);
}
