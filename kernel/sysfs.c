// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/rampart: what the module counts and who owns the device, without
 * a daemon [Rahman16, A.2.1].
 *
 * Problem: a machine with many nodes has more lines of demand than fit into
 * the one page of a sysfs attribute. A file that is read in pieces changes
 * between two of them.
 *
 * Idea: `demand` and `tested` are binary attributes, whose rows keep
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
#define LONG_ROW 128

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

/* A free list, and its place in files that have a row for each. */
struct list {
	u16 node;
	unsigned int type;
	unsigned int order;
};

static struct list list_at(unsigned int row)
{
	struct list list = {
		.node = row / NR_PAGE_ORDERS / MIGRATE_TYPES,
		.type = row / NR_PAGE_ORDERS % MIGRATE_TYPES,
		.order = row % NR_PAGE_ORDERS,
	};

	return list;
}

static unsigned long blocks(const struct list *list, enum rampart_count count)
{
	return rampart_demand(count, list->node, list->type, list->order);
}

static void write_demand(char row[LONG_ROW + 1], unsigned int number)
{
	struct list list = list_at(number);

	snprintf(row, ROW + 1, "%6u %-11s %2u %20lu %20lu\n", list.node,
		 type_names[list.type], list.order,
		 blocks(&list, RAMPART_ALLOCATED),
		 blocks(&list, RAMPART_FREED));
}

/*
 * The four counters of [Rahman16, A.1.3], and one of ours. The part is read
 * before the whole, so that the rest is never less than none.
 */
static void write_tested(char row[LONG_ROW + 1], unsigned int number)
{
	struct list list = list_at(number);
	unsigned long unfreed = blocks(&list, RAMPART_ALLOCATED_UNFREED);
	unsigned long tested = blocks(&list, RAMPART_ALLOCATED_TESTED);
	unsigned long fresh = blocks(&list, RAMPART_FREED_FRESH);

	snprintf(row, LONG_ROW + 1,
		 "%6u %-11s %2u %20lu %20lu %20lu %20lu %21lu\n", list.node,
		 type_names[list.type], list.order, tested,
		 blocks(&list, RAMPART_ALLOCATED) - tested, unfreed, fresh,
		 blocks(&list, RAMPART_FREED) - fresh);
}

/* Fills a piece of a file of rows, which are made one after the other. */
static void read_rows(char *to, loff_t offset, size_t bytes, size_t row_bytes,
		      void (*write)(char row[LONG_ROW + 1],
				    unsigned int number))
{
	char row[LONG_ROW + 1];
	size_t done, piece;

	for (done = 0; done < bytes; done += piece) {
		size_t at = offset + done;

		write(row, at / row_bytes);
		piece = min(bytes - done, row_bytes - at % row_bytes);
		memcpy(to + done, row + at % row_bytes, piece);
	}
}

static ssize_t demand_read(struct file *file, struct kobject *kobject,
			   struct bin_attribute *attribute, char *to,
			   loff_t offset, size_t bytes)
{
	read_rows(to, offset, bytes, ROW, write_demand);
	return bytes;
}

static struct bin_attribute demand_attribute = {
	.attr = { .name = "demand", .mode = 0400 },
	.read = demand_read,
};

static ssize_t tested_read(struct file *file, struct kobject *kobject,
			   struct bin_attribute *attribute, char *to,
			   loff_t offset, size_t bytes)
{
	read_rows(to, offset, bytes, LONG_ROW, write_tested);
	return bytes;
}

static struct bin_attribute tested_attribute = {
	.attr = { .name = "tested", .mode = 0400 },
	.read = tested_read,
};

/* 4 bytes a frame, as rampart_abi.h says; what is no memory reads as never tested. */
static ssize_t ages_read(struct file *file, struct kobject *kobject,
			 struct bin_attribute *attribute, char *to,
			 loff_t offset, size_t bytes)
{
	u64 end = (u64)rampart_ages_frames() * sizeof(u32);
	size_t done, piece;

	if (offset >= end)
		return 0;
	bytes = min_t(u64, bytes, end - offset);
	for (done = 0; done < bytes; done += piece) {
		size_t inside = (offset + done) % sizeof(u32);
		u32 age = rampart_age((offset + done) / sizeof(u32));

		piece = min(bytes - done, sizeof(age) - inside);
		memcpy(to + done, (char *)&age + inside, piece);
	}
	return bytes;
}

static struct bin_attribute ages_attribute = {
	.attr = { .name = "ages", .mode = 0400 },
	.read = ages_read,
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

static ssize_t claims_show(struct kobject *kobject,
			   struct kobj_attribute *attribute, char *to)
{
	struct rampart_tally tally = rampart_claims_tally();

	return sysfs_emit(to,
			  "held %lu\ntested %lu\nretired %lu\nlost_owner %lu\nlost_time %lu\nlost_pressure %lu\nlost_offline %lu\nmoved_fresh %lu\nmoved_expired %lu\nmoved_never %lu\n",
			  tally.held, tally.tested, tally.retired,
			  tally.given_up[RAMPART_LOST_OWNER],
			  tally.given_up[RAMPART_LOST_TIME],
			  tally.given_up[RAMPART_LOST_PRESSURE],
			  tally.given_up[RAMPART_LOST_OFFLINE],
			  rampart_demand_moved(RAMPART_MOVED_TO_FRESH),
			  rampart_demand_moved(RAMPART_MOVED_TO_EXPIRED),
			  rampart_demand_moved(RAMPART_MOVED_TO_NEVER));
}

static struct kobj_attribute claims_attribute = __ATTR_RO_MODE(claims, 0400);

static ssize_t lifetime_show(struct kobject *kobject,
			     struct kobj_attribute *attribute, char *to)
{
	struct rampart_lifetime lifetime = rampart_ages_lifetime();

	return sysfs_emit(to, "%u %u\n", lifetime.seconds, lifetime.margin);
}

static struct kobj_attribute lifetime_attribute = __ATTR_RO(lifetime);

/* Frames of memory that came online; a line for each node on which some wait. */
static ssize_t new_memory_show(struct kobject *kobject,
			       struct kobj_attribute *attribute, char *to)
{
	struct rampart_new_tally tally = rampart_new_tally();
	ssize_t bytes;
	int node;

	bytes = sysfs_emit(to, "policy %s\ntested %lu\nuntested %lu\n",
			   tally.policy, tally.tested, tally.untested);
	for_each_online_node(node) {
		unsigned long waiting = tally.waiting ? rampart_new_waiting(node) : 0;

		if (waiting)
			bytes += sysfs_emit_at(to, bytes, "waiting %d %lu\n",
					       node, waiting);
	}
	return bytes;
}

static struct kobj_attribute new_memory_attribute =
	__ATTR_RO_MODE(new_memory, 0400);

#ifdef CONFIG_PAGE_TESTS
/* Blocks without a valid test that were asked for. */
static ssize_t on_demand_show(struct kobject *kobject,
			      struct kobj_attribute *attribute, char *to)
{
	return sysfs_emit(to,
			  "good %lu\nbad %lu\natomic %lu\nowner %lu\nno_tester %lu\nlate %lu\n",
			  rampart_demands(RAMPART_DEMAND_GOOD),
			  rampart_demands(RAMPART_DEMAND_BAD),
			  rampart_demands(RAMPART_DEMAND_ATOMIC),
			  rampart_demands(RAMPART_DEMAND_OWNER),
			  rampart_demands(RAMPART_DEMAND_NO_TESTER),
			  rampart_demands(RAMPART_DEMAND_LATE));
}

static struct kobj_attribute on_demand_attribute =
	__ATTR_RO_MODE(on_demand, 0400);

static ssize_t untested_show(struct kobject *kobject,
			     struct kobj_attribute *attribute, char *to)
{
	return rampart_demand_callers(to);
}

static struct kobj_attribute untested_attribute =
	__ATTR_RO_MODE(untested, 0400);
#endif

static struct attribute *attributes[] = {
	&abi_attribute.attr,
	&claims_attribute.attr,
	&lifetime_attribute.attr,
	&missed_attribute.attr,
	&new_memory_attribute.attr,
	&owner_attribute.attr,
#ifdef CONFIG_PAGE_TESTS
	&on_demand_attribute.attr,
	&untested_attribute.attr,
#endif
	NULL
};

static struct bin_attribute *binary_attributes[] = {
	&ages_attribute,
	&demand_attribute,
	&tested_attribute,
	NULL
};

static const struct attribute_group group = {
	.attrs = attributes,
	.bin_attrs = binary_attributes,
};

int rampart_sysfs_begin(void)
{
	size_t lists = (size_t)nr_node_ids * MIGRATE_TYPES * NR_PAGE_ORDERS;
	int error;

	demand_attribute.size = lists * ROW;
	tested_attribute.size = lists * LONG_ROW;
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
