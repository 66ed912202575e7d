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
struct rampart_wanted;
struct file;
struct page;
struct poll_table_struct;
struct rampart_lifetime;
struct rampart_listed;
struct rampart_node_block;
struct vm_area_struct;

/* A range of frames; may be empty. */
struct rampart_frames {
	unsigned long first;
	unsigned long count;
};

static inline bool rampart_frames_overlap(const struct rampart_frames *one,
					  const struct rampart_frames *other)
{
	return one->first < other->first + other->count &&
	       other->first < one->first + one->count;
}

/* Who opened the device. */
struct rampart_holder {
	struct mm_struct *mm;
	struct pid *process;
	bool has_ended; /* its claims are given up by now, or will be */
	struct address_space *window; /* of the device's node, for its mappings */
	struct mmu_notifier end;
};

/* ages.c */
enum rampart_verdict { RAMPART_IS_GOOD, RAMPART_IS_BAD };
int rampart_ages_begin(void);
void rampart_ages_end(void);
void rampart_ages_see(unsigned long first, unsigned long frames, bool *good,
		      bool *unfreed);
bool rampart_ages_are_due(unsigned long first, unsigned long frames, u32 older);
bool rampart_ages_free(unsigned long first, unsigned long frames);
void rampart_ages_allocate(unsigned long first, unsigned long frames,
			   bool *good, bool *unfreed);
void rampart_ages_hold(unsigned long frame);
void rampart_ages_release(unsigned long frame);
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
bool rampart_claims_may_be_set_aside(void);
int rampart_claims_set_aside(struct rampart_holder *holder,
			     struct rampart_listed *list);
int rampart_claim_new(struct rampart_holder *holder,
		      struct rampart_node_block *block);
int rampart_claim_demanded(struct rampart_holder *holder,
			   struct rampart_node_block *block);
int rampart_give_back(const struct rampart_holder *holder,
		      const struct rampart_give_back *verdict,
		      unsigned long *bad);
unsigned long rampart_claims_give_up(unsigned long frames,
				     enum rampart_loss loss);
void rampart_claims_give_up_wanted(const struct rampart_wanted *block);
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
bool rampart_demand_is_ignored(void);
bool rampart_demand_is_taking(void);
int rampart_demand_compare(unsigned long kernel[RAMPART_FLOWS],
			   unsigned long seen[RAMPART_FLOWS]);

/* device.c */
int rampart_device_begin(void);
void rampart_device_end(void);
pid_t rampart_owner(void);
int rampart_device_set_aside(struct rampart_listed *list);

/* first_use.c */
/* What becomes of memory that comes online. */
enum rampart_new_policy {
	RAMPART_NEW_USE,
	RAMPART_NEW_TEST,
	RAMPART_NEW_WITHHOLD,
	RAMPART_NEW_TAKEN /* by another driver */
};

/* Frames that came online, since the module was loaded. */
struct rampart_new_tally {
	const char *policy;
	unsigned long waiting; /* now */
	unsigned long tested; /* before their first use */
	unsigned long untested;
};

int rampart_new_begin(void);
void rampart_new_end(void);
int rampart_new_take(const struct rampart_holder *holder, int node,
		     struct rampart_frames *frames);
void rampart_new_wait(const struct rampart_frames *frames);
void rampart_new_use(struct page *page, bool tested);
void rampart_new_keep(struct page *page);
void rampart_new_forget(const struct rampart_holder *holder);
void rampart_new_renew(const struct rampart_holder *holder);
bool rampart_new_look(void);
unsigned long rampart_new_give_up(void);
void rampart_new_leave(const struct rampart_frames *frames);
unsigned long rampart_new_waiting(int node);
struct rampart_new_tally rampart_new_tally(void);

/* frames.c */
int rampart_frames_look(const struct rampart_frames *frames, u32 *in_use);
int rampart_frames_take(const struct rampart_frames *frames,
			unsigned long *freed);
void rampart_frames_prepare(const struct rampart_frames *frames);
void rampart_frames_free(const struct rampart_frames *frames);
void rampart_frame_free(struct page *page);

/* lists.c */
int rampart_list_check(const struct rampart_listed *list);
int rampart_list_of(unsigned long frame, struct rampart_listed *list);
int rampart_list_take_frame(const struct rampart_listed *list,
			    unsigned long frame);
void rampart_list_send_to_end(const struct rampart_listed *list,
			      unsigned long frame);
/* Whose lists: of this CPU, only blocks without a valid test are taken. */
enum rampart_lists { RAMPART_OF_ALL, RAMPART_OF_THIS_CPU };
int rampart_list_take(const struct rampart_listed *list,
		      enum rampart_lists from, struct rampart_frames *frames);

/* moves.c */
int rampart_move(unsigned long frame);

/* offers.c */
u32 rampart_offers(void);

/* on_demand.c */
/* What became of blocks without a valid test that were asked for. */
enum rampart_demand {
	RAMPART_DEMAND_GOOD, /* tested, and handed out */
	RAMPART_DEMAND_BAD, /* tested, and kept */
	RAMPART_DEMAND_ATOMIC, /* untested: the task could not wait */
	RAMPART_DEMAND_OWNER, /* untested: it was the tester itself */
	RAMPART_DEMAND_NO_TESTER, /* untested: nobody tests */
	RAMPART_DEMAND_LATE, /* untested: the tester was late */
	RAMPART_DEMANDS
};

#ifdef CONFIG_PAGE_TESTS
int rampart_on_demand_begin(void);
void rampart_on_demand_end(void);
struct rampart_wanted *rampart_wanted_take(const struct rampart_holder *holder,
					   int node,
					   struct rampart_frames *frames);
__poll_t rampart_wanted_poll(struct file *file,
			     struct poll_table_struct *table);
void rampart_wanted_untested(struct rampart_wanted *block);
void rampart_wanted_good(struct rampart_wanted *block);
void rampart_wanted_keep(struct rampart_wanted *block);
void rampart_wanted_forget(const struct rampart_holder *holder);
unsigned long rampart_demands(enum rampart_demand what);
ssize_t rampart_demand_callers(char *to);
#else
static inline int rampart_on_demand_begin(void)
{
	return 0;
}

static inline void rampart_on_demand_end(void) {}

static inline struct rampart_wanted *
rampart_wanted_take(const struct rampart_holder *holder, int node,
		    struct rampart_frames *frames)
{
	return NULL;
}

static inline __poll_t rampart_wanted_poll(struct file *file,
					   struct poll_table_struct *table)
{
	return 0;
}

static inline void rampart_wanted_untested(struct rampart_wanted *block) {}
static inline void rampart_wanted_good(struct rampart_wanted *block) {}
static inline void rampart_wanted_keep(struct rampart_wanted *block) {}
static inline void rampart_wanted_forget(const struct rampart_holder *holder) {}
#endif

/* pressure.c */
int rampart_pressure_begin(void);
void rampart_pressure_end(void);
unsigned long rampart_claim_time(void);
void rampart_limit_time(void);
bool rampart_memory_was_short(void);

/* recycle.c */
int rampart_recycle_begin(void);
void rampart_recycle_end(void);
void rampart_recycle(unsigned long frame, unsigned int order);

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
