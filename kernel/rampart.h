/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the module use of each other. Each file says at its top
 * what it is for.
 */
#ifndef RAMPART_H
#define RAMPART_H

#include <linux/types.h>

/* One direction of demand. */
enum rampart_flow { RAMPART_ALLOCATED, RAMPART_FREED, RAMPART_FLOWS };

/* demand.c */
int rampart_demand_begin(void);
void rampart_demand_end(void);
unsigned long rampart_demand(enum rampart_flow flow, int node,
			     unsigned int type, unsigned int order);
int rampart_demand_compare(unsigned long kernel[RAMPART_FLOWS],
			   unsigned long seen[RAMPART_FLOWS]);

/* device.c */
int rampart_device_begin(void);
void rampart_device_end(void);
pid_t rampart_owner(void);

/* offers.c */
u32 rampart_offers(void);

/* sysfs.c */
int rampart_sysfs_begin(void);
void rampart_sysfs_end(void);

#endif
