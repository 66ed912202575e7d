// SPDX-License-Identifier: GPL-2.0
/*
 * Rampart's kernel side: what a program cannot see or do from outside.
 *
 * Problem: a program that tests memory reaches only what it can allocate, and
 * does not see what the rest of the machine allocates and frees.
 *
 * Idea: a module for an unpatched kernel offers mechanism: it counts demand
 * (demand.c), has a device for one owner (device.c), hands it the frames that
 * it names (claims.c, window.c), and knows when each frame was tested (ages.c).
 * What is done with it is decided by the program.
 *
 * Why so: a module can be loaded on the kernel that a distribution ships, and
 * policy that lives in a program can be tested and changed there.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/stringify.h>

#include "rampart.h"
#include "rampart_abi.h"

static int __init rampart_init(void)
{
	int error;

	error = rampart_ages_begin();
	if (error)
		return error;
	error = rampart_recycle_begin();
	if (error)
		goto end_ages;
	error = rampart_demand_begin();
	if (error)
		goto end_recycle;
	error = rampart_pressure_begin();
	if (error)
		goto end_demand;
	error = rampart_new_begin();
	if (error)
		goto end_pressure;
	error = rampart_sysfs_begin();
	if (error)
		goto end_new;
	error = rampart_on_demand_begin();
	if (error)
		goto end_sysfs;
	error = rampart_device_begin();
	if (error)
		goto end_on_demand;
	return 0;

end_on_demand:
	rampart_on_demand_end();
end_sysfs:
	rampart_sysfs_end();
end_new:
	rampart_new_end();
end_pressure:
	rampart_pressure_end();
end_demand:
	rampart_demand_end();
end_recycle:
	rampart_recycle_end();
end_ages:
	rampart_ages_end();
	return error;
}

static void __exit rampart_exit(void)
{
	rampart_device_end();
	rampart_on_demand_end();
	rampart_sysfs_end();
	rampart_new_end();
	rampart_pressure_end();
	rampart_demand_end();
	rampart_recycle_end();
	rampart_ages_end();
}

module_init(rampart_init);
module_exit(rampart_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Rampart: frames to test, and demand for memory by order, for one owner");
MODULE_AUTHOR("Rampart");
MODULE_INFO(rampart_abi, __stringify(RAMPART_ABI));
