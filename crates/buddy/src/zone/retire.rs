//! Frames that are never given out again.
//!
//! A retired frame is on no list and never merges, so no block contains it. A frame that is held when it is retired
//! stays with its holder, and its block comes back without it.

use rampart_memory::{BlockOrder, Frame};

use super::state::{Begins, State};
use super::{ZoneAllocator, span};
use crate::steps::{StepKind, step};
use crate::{End, FramePlace, Mark, Storage};

impl<'a, M: Mark, S: Storage<'a>> ZoneAllocator<'a, M, S> {
    /// Retires a frame, and returns where it was.
    pub fn retire(&mut self, frame: Frame) -> FramePlace {
        let was = self.place(frame);
        if was == FramePlace::Local {
            // As in Linux, empty the lists of the CPUs, so that the frame lies in a free block.
            self.drain_all();
        }
        let slot = self.slot(frame);
        if self.lists.state(slot).is_retired() {
            return was;
        }
        match self.beginning(slot) {
            Some((first, Begins::Free(_, order))) => {
                let (_, _, mark) = self.lists.remove(first);
                self.set_retired(slot);
                self.give_good(first, order, mark, End::Back);
            }
            Some((_, Begins::Held(_))) => self.set_retired(slot),
            other => panic!("a frame of the zone is free or held, this one is {other:?}"),
        }
        was
    }

    fn set_retired(&mut self, slot: u32) {
        self.lists.set(slot, self.lists.state(slot).retired());
        self.retired_near[(slot / span(BlockOrder::MAX)) as usize] += 1;
        self.statistics.retired += 1;
    }

    /// Gives a block that is on no list to the global lists, in the largest parts without a retired frame.
    pub(super) fn give_good(&mut self, slot: u32, order: BlockOrder, mark: M, end: End) {
        step(StepKind::Frame);
        let clean =
            self.retired_near[(slot / span(BlockOrder::MAX)) as usize] == 0 || !self.lists.any_retired(slot, order);
        if clean {
            self.give(slot, order, self.migratetype(slot), mark, end);
        } else if let Some(half) = order.below() {
            self.give_good(slot, half, mark, end);
            self.give_good(slot + span(half), half, mark, end);
        } else {
            self.lists.set(slot, State::GONE);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Migratetype::Movable;
    use crate::testing::{CPU, at, block, frame, free_blocks, list, machine, request};
    use crate::{End, FramePlace, FreeLists, ZoneIndex};

    /// The parts of block 0 of order 3 without frame 5.
    const AROUND_5: [(u64, u8); 3] = [(0, 2), (4, 0), (6, 1)];

    #[test]
    fn the_rest_of_a_free_block_stays_free_with_its_mark() {
        let mut buddy = machine(1024);
        buddy.remark(|_| at(3));
        assert_eq!(buddy.retire(frame(5)), FramePlace::Free(block(0, 10)));
        let parts = AROUND_5.into_iter().chain((3..10).map(|order| (1 << order, order)));
        let mut expected: Vec<_> = parts.map(|(first, order)| (block(first, order), Movable, at(3))).collect();
        expected.sort_unstable();
        assert_eq!(free_blocks(&buddy), expected);
        assert_eq!((buddy.place(frame(5)), buddy.free_frames(ZoneIndex(0))), (FramePlace::Retired, 1023));
        assert_eq!(buddy.retire(frame(5)), FramePlace::Retired);
        assert_eq!(buddy.statistics().retired, 1);
    }

    #[test]
    fn a_held_block_comes_back_without_its_retired_frame() {
        let mut buddy = machine(1024);
        let (whole, _) = buddy.take(list(10, Movable), End::Front).unwrap();
        buddy.split(whole);
        for number in 8..16 {
            buddy.put(block(number, 0), at(1), End::Front);
        }
        let held = buddy.allocate(request(3, Movable));
        assert_eq!(held, None, "the watermark keeps these");
        let got = buddy.claim(block(8, 3)).unwrap();
        assert_eq!(buddy.retire(frame(13)), FramePlace::Held);
        assert_eq!(buddy.place(frame(13)), FramePlace::Held, "its holder has it until then");
        buddy.free(block(8, 3), CPU, got, End::Front);
        assert_eq!(buddy.place(frame(13)), FramePlace::Retired);
        let around_13: Vec<_> = AROUND_5.map(|(first, order)| (block(first + 8, order), Movable, at(1))).to_vec();
        assert_eq!(free_blocks(&buddy), around_13);
    }

    #[test]
    fn the_first_frame_of_a_held_block_may_be_the_one() {
        let mut buddy = machine(1024);
        let (whole, mark) = buddy.take(list(10, Movable), End::Front).unwrap();
        buddy.retire(frame(0));
        buddy.retire(frame(0));
        buddy.put(whole, mark, End::Front);
        assert_eq!((buddy.free_frames(ZoneIndex(0)), buddy.statistics().retired), (1023, 1));
    }

    #[test]
    fn a_single_held_frame_that_failed_is_gone_when_it_is_freed() {
        let mut buddy = machine(1024);
        let got = buddy.allocate(request(0, Movable)).unwrap();
        let local = buddy.local_frames(ZoneIndex(0), CPU);
        buddy.retire(got.block.first());
        buddy.free(got.block, CPU, got.mark, End::Front);
        assert_eq!(buddy.place(got.block.first()), FramePlace::Retired);
        assert_eq!(buddy.local_frames(ZoneIndex(0), CPU), local);
    }

    #[test]
    fn a_frame_at_hand_for_a_cpu_is_retired_too() {
        let mut buddy = machine(1024);
        buddy.allocate(request(0, Movable)).unwrap();
        assert_eq!(buddy.retire(frame(7)), FramePlace::Local);
        assert_eq!(buddy.place(frame(7)), FramePlace::Retired);
        assert_eq!(buddy.free_frames(ZoneIndex(0)), 1022);
    }
}
