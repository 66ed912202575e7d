// SPDX-License-Identifier: GPL-2.0
/*
 * The device, and who may use it.
 *
 * Problem: who has the device may later take frames from the whole machine
 * and see what they held. A descriptor is inherited over fork and exec, and is
 * passed on over sockets, to programs that nobody meant to trust.
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
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "rampart.h"
#include "rampart_abi.h"

struct rampart_holder {
	struct mm_struct *mm;
	struct pid *process;
};

static DEFINE_MUTEX(holder_lock);
static struct rampart_holder *holder; /* under holder_lock */

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

static struct rampart_holder *new_holder(void)
{
	struct rampart_holder *new = kmalloc(sizeof(*new), GFP_KERNEL);

	if (!new)
		return NULL;
	mmgrab(current->mm);
	new->mm = current->mm;
	new->process = get_task_pid(current, PIDTYPE_TGID);
	return new;
}

static void free_holder(struct rampart_holder *old)
{
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
	new = new_holder();
	if (!new)
		return -ENOMEM;
	mutex_lock(&holder_lock);
	if (holder_is_alive())
		error = -EBUSY;
	else
		holder = new;
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
		holder = NULL;
	mutex_unlock(&holder_lock);
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

static long rampart_ioctl(struct file *file, unsigned int request,
			  unsigned long argument)
{
	const struct rampart_holder *mine = file->private_data;

	if (mine->mm != current->mm)
		return -EPERM;
	switch (request) {
	case RAMPART_GET_INFO:
		return get_info((struct rampart_info __user *)argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations rampart_operations = {
	.owner = THIS_MODULE,
	.open = rampart_open,
	.release = rampart_release,
	.unlocked_ioctl = rampart_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
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

int rampart_device_begin(void)
{
	return misc_register(&rampart_device);
}

void rampart_device_end(void)
{
	misc_deregister(&rampart_device);
}
