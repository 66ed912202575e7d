// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/rampart: what the module counts and who owns the device, without
 * a daemon [Rahman16, A.2.1].
 *
 * Problem: a machine with many nodes has more lines of demand than fit into
 * the one page of a sysfs attribute. A file that is read in pieces changes
 * between two of them.
 *
 * Idea: `demand` is a binary attribute, whose rows all have 64 bytes and keep
 * their places. A piece begins and ends between rows, since pages of memory are
 * multiples of 64 bytes; each row is made when it is read.
 *
 * Why so: no snapshot has to be kept for each reader, and every row is true
 * for its own moment. Rows of zeros are there too, or later rows would move.
 */
#include <linux/kobject.h>
#include <linux/minmax.h>
#include <linux/mmzone.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "compat.h"
#include "rampart.h"
#include "rampart_abi.h"

#define ROW 64

/* As in /proc/pagetypeinfo. */
static const char *const type_names[MIGRATE_TYPES] = {
	[MIGRATE_UNMOVABLE] = "Unmovable",
	[MIGRATE_MOVABLE] = "Movable",
	[MIGRATE_RECLAIMABLE] = "Reclaimable",
	[MIGRATE_HIGHATOMIC] = "HighAtomic",
#ifdef CONFIG_CMA
	[MIGRATE_CMA] = "CMA",
#endif
#ifdef CONFIG_MEMORY_ISOLATION
	[MIGRATE_ISOLATE] = "Isolate",
#endif
};

static struct kobject *folder;

static void write_row(char row[ROW + 1], unsigned int number)
{
	unsigned int order = number % NR_PAGE_ORDERS;
	unsigned int type = number / NR_PAGE_ORDERS % MIGRATE_TYPES;
	u16 node = number / NR_PAGE_ORDERS / MIGRATE_TYPES;

	snprintf(row, ROW + 1, "%6u %-11s %2u %20lu %20lu\n", node,
		 type_names[type], order,
		 rampart_demand(RAMPART_ALLOCATED, node, type, order),
		 rampart_demand(RAMPART_FREED, node, type, order));
}

static ssize_t demand_read(struct file *file, struct kobject *kobject,
			   struct bin_attribute *attribute, char *to,
			   loff_t offset, size_t bytes)
{
	char row[ROW + 1];
	size_t done, piece;

	for (done = 0; done < bytes; done += piece) {
		size_t at = offset + done;

		write_row(row, at / ROW);
		piece = min(bytes - done, ROW - at % ROW);
		memcpy(to + done, row + at % ROW, piece);
	}
	return bytes;
}

static struct bin_attribute demand_attribute = {
	.attr = { .name = "demand", .mode = 0400 },
	.read = demand_read,
};

static ssize_t abi_show(struct kobject *kobject,
			struct kobj_attribute *attribute, char *to)
{
	return sysfs_emit(to, "%d\n", RAMPART_ABI);
}

static struct kobj_attribute abi_attribute = __ATTR_RO(abi);

static ssize_t missed_show(struct kobject *kobject,
			   struct kobj_attribute *attribute, char *to)
{
	unsigned long kernel[RAMPART_FLOWS], seen[RAMPART_FLOWS];
	int error = rampart_demand_compare(kernel, seen);

	if (error)
		return error;
	return sysfs_emit(to, "allocated %lu %lu\nfreed %lu %lu\n",
			  kernel[RAMPART_ALLOCATED], seen[RAMPART_ALLOCATED],
			  kernel[RAMPART_FREED], seen[RAMPART_FREED]);
}

static struct kobj_attribute missed_attribute = __ATTR_RO_MODE(missed, 0400);

static ssize_t owner_show(struct kobject *kobject,
			  struct kobj_attribute *attribute, char *to)
{
	pid_t owner = rampart_owner();

	return owner ? sysfs_emit(to, "%d\n", owner) : sysfs_emit(to, "none\n");
}

static struct kobj_attribute owner_attribute = __ATTR_RO(owner);

static struct attribute *attributes[] = {
	&abi_attribute.attr,
	&missed_attribute.attr,
	&owner_attribute.attr,
	NULL
};

static struct bin_attribute *binary_attributes[] = {
	&demand_attribute,
	NULL
};

static const struct attribute_group group = {
	.attrs = attributes,
	.bin_attrs = binary_attributes,
};

int rampart_sysfs_begin(void)
{
	int error;

	demand_attribute.size =
		(size_t)nr_node_ids * MIGRATE_TYPES * NR_PAGE_ORDERS * ROW;
	folder = kobject_create_and_add("rampart", kernel_kobj);
	if (!folder)
		return -ENOMEM;
	error = sysfs_create_group(folder, &group);
	if (error)
		kobject_put(folder);
	return error;
}

void rampart_sysfs_end(void)
{
	kobject_put(folder);
}
