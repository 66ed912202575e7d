//! The lists of the CPUs, which cache single frames ([Rahman16, 4.1 and A.1.2]; `buffered_rmqueue` and
//! `free_pcppages_bulk` in mm/page_alloc.c, Linux 3.1).
//!
//! A CPU has a list per zone and migratetype. An empty list gets a batch from the global lists. When a free brings all
//! lists of a CPU together to the bound, a batch goes back, from their ends in turn. Frames on them keep their marks
//! and never merge.

use rampart_memory::BlockOrder;

use super::ZoneAllocator;
use crate::{Cpu, End, Mark, Migratetype, Storage};

/// Frames that move between the list of a CPU and the global lists at once (`zone_batchsize`, zones of 512 MiB or
/// more).
pub const LOCAL_BATCH: u32 = 31;

/// Frames of one zone at which the lists of a CPU give back a batch (`setup_pageset`).
pub const LOCAL_HIGH: u32 = 6 * LOCAL_BATCH;

impl<'a, M: Mark, S: Storage<'a>> ZoneAllocator<'a, M, S> {
    /// Takes the first frame of a CPU's list; an empty list is first filled with at limit `spare` frames.
    #[inline]
    pub(super) fn allocate_local(&mut self, cpu: Cpu, migratetype: Migratetype, spare: u64) -> Option<(u32, M)> {
        let list = self.lists.local(cpu, migratetype);
        if self.lists.is_empty(list) {
            self.refill(cpu, migratetype, spare);
        }
        let (slot, mark, _) = self.lists.take_local(list, End::Front)?;
        self.local[cpu.0 as usize] -= 1;
        Some((slot, mark))
    }

    fn refill(&mut self, cpu: Cpu, migratetype: Migratetype, spare: u64) {
        let list = self.lists.local(cpu, migratetype);
        self.statistics.refills += 1;
        for _ in 0..u64::from(LOCAL_BATCH).min(spare) {
            let Some(found) = self.find(BlockOrder::ZERO, migratetype) else { break };
            self.lists.insert_local(found.slot, list, found.mark, End::Back, End::Front);
            self.local[cpu.0 as usize] += 1;
        }
    }

    /// Puts a frame on the list of a CPU; it will go to the same end of a global list.
    pub(super) fn free_local(&mut self, slot: u32, cpu: Cpu, mark: M, end: End) {
        let list = self.lists.local(cpu, self.migratetype(slot));
        self.lists.insert_local(slot, list, mark, end, end);
        self.local[cpu.0 as usize] += 1;
        if self.local[cpu.0 as usize] >= LOCAL_HIGH {
            self.drain(cpu, LOCAL_BATCH);
        }
    }

    /// Gives at limit `limit` frames of a CPU to the global lists: the last of each of its lists in turn.
    fn drain(&mut self, cpu: Cpu, limit: u32) {
        let frames = self.local[cpu.0 as usize].min(limit);
        let mut types = Migratetype::ALL.into_iter().cycle();
        let mut left = frames;
        while left > 0 {
            let migratetype = types.next().expect("a cycle has no end");
            if let Some((slot, mark, end)) = self.lists.take_local(self.lists.local(cpu, migratetype), End::Back) {
                self.give(slot, BlockOrder::ZERO, migratetype, mark, end);
                left -= 1;
            }
        }
        self.local[cpu.0 as usize] -= frames;
        self.statistics.drains += 1;
    }

    /// Gives all frames on the lists of all CPUs to the global lists, and returns their number.
    pub fn drain_all(&mut self) -> u64 {
        let before = self.lists.free_frames();
        for cpu in (0..).map(Cpu).take(self.local.len()) {
            if self.local_frames(cpu) > 0 {
                self.drain(cpu, u32::MAX);
            }
        }
        self.lists.free_frames() - before
    }
}

#[cfg(test)]
mod tests {
    use rampart_memory::FrameBlock;

    use super::{LOCAL_BATCH, LOCAL_HIGH};
    use crate::Migratetype::{Movable, Unmovable};
    use crate::testing::{CPU, at, block, free_blocks, list, machine, request};
    use crate::{AllocationOrigin, Cpu, End, FreeLists, Request, ZoneIndex};

    const ZONE: ZoneIndex = ZoneIndex(0);

    #[test]
    fn an_empty_list_is_filled_with_a_batch_and_hands_it_out_in_order() {
        let mut buddy = machine(4096);
        for (count, left) in (0_u64..u64::from(LOCAL_BATCH)).zip((0..u64::from(LOCAL_BATCH)).rev()) {
            let got = buddy.allocate(request(0, Movable)).unwrap();
            assert_eq!((got.block, got.from), (block(count, 0), AllocationOrigin::Local(CPU)));
            assert_eq!(buddy.local_frames(ZONE, CPU), left);
        }
        assert_eq!(buddy.statistics().refills, 1);
        buddy.allocate(request(0, Movable)).unwrap();
        assert_eq!(buddy.statistics().refills, 2);
        let from_global: u64 = buddy.lists().map(|list| buddy.allocated_from(list)).sum();
        assert_eq!(from_global, 2 * u64::from(LOCAL_BATCH));
    }

    #[test]
    fn what_was_freed_last_is_allocated_first_with_its_mark() {
        let mut buddy = machine(4096);
        let got = [(); 2].map(|()| buddy.allocate(request(0, Movable)).unwrap());
        buddy.free(got[0].block, CPU, at(5), End::Front);
        buddy.free(got[1].block, CPU, at(6), End::Back);
        let again = buddy.allocate(request(0, Movable)).unwrap();
        assert_eq!((again.block, again.mark), (got[0].block, at(5)));
    }

    #[test]
    fn cpus_and_migratetypes_do_not_share_lists() {
        let mut buddy = machine(4096);
        let got = buddy.allocate(request(0, Movable)).unwrap();
        buddy.free(got.block, CPU, at(5), End::Front);
        let other_cpu = buddy.allocate(Request { cpu: Cpu(1), ..request(0, Movable) }).unwrap();
        let other_type = buddy.allocate(request(0, Unmovable)).unwrap();
        assert_eq!(other_cpu.from, AllocationOrigin::Local(Cpu(1)));
        assert!(other_cpu.block != got.block && other_type.block != got.block);
        assert_eq!(buddy.local_frames(ZONE, Cpu(1)), u64::from(LOCAL_BATCH) - 1);
    }

    #[test]
    fn a_full_list_gives_back_a_batch_to_the_ends_that_were_asked_for() {
        let mut buddy = machine(4096);
        let (whole, mark) = buddy.take(list(10, Movable), End::Back).unwrap();
        buddy.split(whole);
        // Every other frame, so that nothing merges.
        let frames: Vec<_> = whole.frames().step_by(2).take(LOCAL_HIGH as usize).map(FrameBlock::of).collect();
        let (last, others) = frames.split_last().unwrap();
        for (&frame, end) in others.iter().zip([End::Front, End::Back].into_iter().cycle()) {
            buddy.free(frame, CPU, mark, end);
        }
        assert_eq!((buddy.local_frames(ZONE, CPU), buddy.statistics().drains), (u64::from(LOCAL_HIGH) - 1, 0));
        buddy.free(*last, CPU, mark, End::Front);
        assert_eq!(buddy.local_frames(ZONE, CPU), u64::from(LOCAL_HIGH - LOCAL_BATCH));
        let drained: Vec<_> = buddy.blocks(list(0, Movable), End::Front).map(|(block, _)| block).collect();
        let newest_at_the_back: Vec<_> = others.iter().copied().skip(1).step_by(2).rev().take(31).collect();
        assert_eq!(
            drained, newest_at_the_back,
            "End::Back puts them at the CPU's back and, one after the other, at the list's"
        );
    }

    /// [Rahman16, 5.2.3.2].
    #[test]
    fn a_recycled_frame_goes_past_the_cpu_to_the_end_of_its_global_list() {
        let mut buddy = machine(4096);
        let held = [(); 4].map(|()| buddy.allocate(request(0, Movable)).unwrap().block);
        let local = buddy.local_frames(ZONE, CPU);
        buddy.put(held[1], at(9), End::Front);
        buddy.put(held[2], at(0), End::Back);
        assert_eq!(buddy.local_frames(ZONE, CPU), local);
        let singles: Vec<_> = buddy.blocks(list(0, Movable), End::Front).collect();
        assert_eq!(singles.first(), Some(&(held[1], at(9))));
        assert_eq!(singles.last(), Some(&(held[2], at(0))));
    }

    #[test]
    fn a_request_that_finds_nothing_gets_what_other_cpus_have_at_hand() {
        let mut buddy = machine(1024);
        let held: Vec<_> = core::iter::from_fn(|| buddy.allocate(request(0, Movable))).collect();
        held.iter().take(40).for_each(|got| buddy.free(got.block, Cpu(1), got.mark, End::Front));
        assert_eq!(buddy.local_frames(ZONE, Cpu(1)), 40);
        assert!(buddy.allocate(request(5, Movable)).is_some(), "32 of the 40 merge");
        assert_eq!(buddy.local_frames(ZONE, Cpu(1)), 0);
        assert!(free_blocks(&buddy).iter().map(|(block, ..)| block.count()).sum::<u64>() >= buddy.watermarks(ZONE).min);
    }
}
