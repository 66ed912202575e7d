/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the module use of each other. Each file says at its top
 * what it is for.
 */
#ifndef RAMPART_H
#define RAMPART_H

#include <linux/mmu_notifier.h>
#include <linux/types.h>

struct rampart_claim;
struct rampart_give_back;
struct rampart_lifetime;
struct rampart_listed;
struct vm_area_struct;

/* A range of frames; may be empty. */
struct rampart_frames {
	unsigned long first;
	unsigned long count;
};

/* Who opened the device. */
struct rampart_holder {
	struct mm_struct *mm;
	struct pid *process;
	struct address_space *window; /* of the device's node, for its mappings */
	struct mmu_notifier end;
};

/* ages.c */
enum rampart_verdict { RAMPART_IS_GOOD, RAMPART_IS_BAD };
int rampart_ages_begin(void);
void rampart_ages_end(void);
void rampart_ages_see(unsigned long first, unsigned long frames, bool *good,
		      bool *unfreed);
bool rampart_ages_free(unsigned long first, unsigned long frames);
void rampart_ages_hold(unsigned long frame);
void rampart_ages_judge(unsigned long frame, enum rampart_verdict verdict);
u32 rampart_age(unsigned long frame);
unsigned long rampart_ages_frames(void);
int rampart_ages_set_lifetime(const struct rampart_lifetime *lifetime);
struct rampart_lifetime rampart_ages_lifetime(void);

/* claims.c */
/* Why a claim was given back without its owner. */
enum rampart_loss {
	RAMPART_LOST_OWNER,
	RAMPART_LOST_TIME,
	RAMPART_LOST_PRESSURE,
	RAMPART_LOST_OFFLINE,
	RAMPART_LOSSES
};

/* Frames, since the module was loaded. */
struct rampart_tally {
	unsigned long held; /* now */
	unsigned long tested;
	unsigned long retired;
	unsigned long returned; /* to the kernel, tested or not */
	unsigned long given_up[RAMPART_LOSSES];
};

int rampart_claim(struct rampart_holder *holder, struct rampart_claim *request);
int rampart_claim_listed(struct rampart_holder *holder,
			 struct rampart_listed *list);
int rampart_give_back(const struct rampart_holder *holder,
		      const struct rampart_give_back *verdict,
		      unsigned long *bad);
unsigned long rampart_claims_give_up(unsigned long frames,
				     enum rampart_loss loss);
void rampart_claims_give_up_of(const struct rampart_holder *holder);
void rampart_claims_renew(const struct rampart_holder *holder);
bool rampart_claims_give_up_older(unsigned long age);
int rampart_claims_leave(const struct rampart_frames *frames);
bool rampart_claims_lock(const struct rampart_holder *holder,
			 unsigned long frame, u64 newest,
			 struct rampart_frames *frames);
void rampart_claims_unlock(void);
u64 rampart_claims_newest(void);
struct rampart_tally rampart_claims_tally(void);

/* demand.c */
/* What is counted of blocks; the first two also by the kernel, in frames. */
enum rampart_count {
	RAMPART_ALLOCATED,
	RAMPART_FREED,
	RAMPART_FLOWS,
	RAMPART_ALLOCATED_TESTED = RAMPART_FLOWS,
	RAMPART_ALLOCATED_UNFREED, /* tested, and free ever since */
	RAMPART_FREED_FRESH,
	RAMPART_COUNTS
};

/* The last test of frames to which claims have moved content [Rahman16, figure 6]. */
enum rampart_target {
	RAMPART_MOVED_TO_FRESH,
	RAMPART_MOVED_TO_EXPIRED,
	RAMPART_MOVED_TO_NEVER, /* tested */
	RAMPART_TARGETS
};

int rampart_demand_begin(void);
void rampart_demand_end(void);
unsigned long rampart_demand(enum rampart_count count, int node,
			     unsigned int type, unsigned int order);
unsigned long rampart_demand_moved(enum rampart_target target);
void rampart_demand_ignore(unsigned long first, unsigned long end);
void rampart_demand_ignore_task(bool ignore);
int rampart_demand_compare(unsigned long kernel[RAMPART_FLOWS],
			   unsigned long seen[RAMPART_FLOWS]);

/* device.c */
int rampart_device_begin(void);
void rampart_device_end(void);
pid_t rampart_owner(void);

/* lists.c */
int rampart_list_check(const struct rampart_listed *list);
int rampart_list_take(const struct rampart_listed *list,
		      struct rampart_frames *frames);

/* offers.c */
u32 rampart_offers(void);

/* pressure.c */
int rampart_pressure_begin(void);
void rampart_pressure_end(void);
void rampart_limit_time(void);
bool rampart_memory_was_short(void);

/* retire.c */
void rampart_retire(unsigned long frame);

/* sysfs.c */
int rampart_sysfs_begin(void);
void rampart_sysfs_end(void);

/* window.c */
int rampart_window_map(struct vm_area_struct *vma);
void rampart_window_unmap(const struct rampart_holder *holder,
			  const struct rampart_frames *frames);

#endif
