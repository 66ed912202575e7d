//! The buddy algorithm on the global lists ([Panwar15, 2.1]; `__free_one_page`, `expand` and
//! `__rmqueue_smallest` in mm/page_alloc.c, Linux 3.1).

use rampart_memory::BlockOrder;

use super::{ZoneAllocator, span};
use crate::{Allocated, AllocationOrigin, End, Mark, Migratetype, Request, Storage};

/// A block that was taken off the global lists for an allocation.
pub(super) struct Found<M> {
    pub slot: u32,
    pub mark: M,
    /// The list of the block, or of the larger block that was split for it.
    pub order: BlockOrder,
    pub migratetype: Migratetype,
}

impl<'a, M: Mark, S: Storage<'a>> ZoneAllocator<'a, M, S> {
    /// Allocates a block for a request, if that leaves `floor` frames on the global lists.
    #[inline]
    pub fn allocate(&mut self, request: &Request, floor: u64) -> Option<Allocated<M>> {
        let Request { order, migratetype, cpu, .. } = *request;
        let spare = self.lists.free_frames().checked_sub(floor)?;
        if spare < order.frames() {
            return None;
        }
        let (slot, mark, from) = if self.is_local(order) {
            let (slot, mark) = self.allocate_local(cpu, migratetype, spare)?;
            (slot, mark, AllocationOrigin::Local(cpu))
        } else {
            let found = self.find(order, migratetype)?;
            (found.slot, found.mark, AllocationOrigin::Global(self.list(found.order, found.migratetype)))
        };
        self.statistics.allocated += 1;
        Some(Allocated { block: self.hold(slot, order), mark, from })
    }

    /// Takes a block off the global lists: the first of the smallest that are large enough, split to size.
    pub(super) fn find(&mut self, order: BlockOrder, migratetype: Migratetype) -> Option<Found<M>> {
        let large_enough = BlockOrder::all().skip(order.index());
        let smallest = large_enough.filter_map(|order| self.lists.at(order, migratetype, End::Front)).next();
        let (slot, from, rest) = match smallest {
            Some(slot) => (slot, migratetype, migratetype),
            None => self.steal(order, migratetype)?,
        };
        let (larger, _, mark) = self.lists.remove(slot);
        self.lists.count_allocated(larger, from);
        self.split_down(slot, larger, order, rest, mark);
        Some(Found { slot, mark, order: larger, migratetype: from })
    }

    /// Splits a block down to size and puts the rest on the lists: the upper half, then the upper half of the lower
    /// half, and so on.
    fn split_down(&mut self, slot: u32, from: BlockOrder, to: BlockOrder, migratetype: Migratetype, mark: M) {
        let mut order = from;
        while order > to {
            order = order.below().expect("it is above another order");
            self.lists.insert(slot + span(order), order, migratetype, mark, End::Front);
            self.statistics.splits += 1;
        }
    }

    /// Puts a block that is on no list and has no retired frame on the lists, merged with all free buddies.
    pub(super) fn give(&mut self, slot: u32, order: BlockOrder, migratetype: Migratetype, mark: M, end: End) {
        let (mut slot, mut order, mut mark) = (slot, order, mark);
        while let Some(above) = order.above() {
            let buddy = slot ^ span(order);
            if !self.lists.state(buddy).is_free_block_of(order) {
                break;
            }
            let (_, _, other) = self.lists.remove(buddy);
            mark = mark.join(other);
            slot &= buddy;
            order = above;
            self.statistics.merges += 1;
        }
        self.lists.insert(slot, order, migratetype, mark, end);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{CPU, SmallBuddy, at, block, free_blocks, list, machine, request, urgent};
    use crate::{AllocationOrigin, End, FreeLists, Migratetype::Movable};

    #[test]
    fn a_block_is_split_from_the_smallest_that_is_large_enough() {
        let mut buddy = machine(2048);
        let first = buddy.allocate(request(8, Movable)).unwrap();
        assert_eq!((first.block, first.from), (block(0, 8), AllocationOrigin::Global(list(10, Movable))));
        let left: Vec<_> = free_blocks(&buddy).into_iter().map(|(block, ..)| block).collect();
        assert_eq!(left, [block(256, 8), block(512, 9), block(1024, 10)]);
        let second = buddy.allocate(request(8, Movable)).unwrap();
        assert_eq!((second.block, second.from), (block(256, 8), AllocationOrigin::Global(list(8, Movable))));
        assert_eq!(buddy.statistics().splits, 2);
        assert_eq!(buddy.allocated_from(list(10, Movable)), 1);
    }

    #[test]
    fn buddies_merge_up_to_the_largest_block_and_the_older_mark_stays() {
        let mut buddy = machine(1024);
        let halves = [(); 2].map(|()| buddy.allocate(request(4, Movable)).unwrap().block);
        buddy.put(halves[0], at(20), End::Front);
        buddy.remark(|_| at(30));
        buddy.put(halves[1], at(10), End::Front);
        assert_eq!(free_blocks(&buddy), [(block(0, 10), Movable, at(10))]);
        assert_eq!(buddy.statistics().merges, buddy.statistics().splits);
    }

    #[test]
    fn a_split_block_gives_its_mark_to_both_halves() {
        let mut buddy = machine(1024);
        let (whole, _) = buddy.take(list(10, Movable), End::Front).unwrap();
        buddy.put(whole, at(7), End::Front);
        assert_eq!(buddy.allocate(request(5, Movable)).unwrap().mark, at(7));
        assert!(free_blocks(&buddy).iter().all(|&(.., mark)| mark == at(7)));
    }

    #[test]
    fn neighbours_that_are_no_buddies_stay_apart() {
        let mut buddy = machine(1024);
        let blocks = [(); 4].map(|()| buddy.allocate(urgent(8, Movable)).unwrap().block);
        buddy.free(blocks[1], CPU, at(1), End::Front);
        buddy.free(blocks[2], CPU, at(2), End::Front);
        assert_eq!(free_blocks(&buddy), [(block(256, 8), Movable, at(1)), (block(512, 8), Movable, at(2))]);
    }

    /// [Rahman16, A.1.1]: the four operations on one list.
    #[test]
    fn blocks_come_from_and_go_to_either_end_of_a_list() {
        let mut buddy = machine(4096);
        let name = list(10, Movable);
        let firsts = |buddy: &SmallBuddy, end| -> Vec<u64> {
            buddy.blocks(name, end).map(|(block, _)| block.first().number() / 1024).collect()
        };
        assert_eq!(firsts(&buddy, End::Front), [0, 1, 2, 3]);
        let (last, mark) = buddy.take(name, End::Back).unwrap();
        let (first, _) = buddy.take(name, End::Front).unwrap();
        buddy.put(last, mark, End::Front);
        buddy.put(first, mark, End::Back);
        assert_eq!(firsts(&buddy, End::Front), [3, 1, 2, 0]);
        assert_eq!(firsts(&buddy, End::Back), [0, 2, 1, 3]);
        assert_eq!(buddy.peek(name, End::Back).unwrap().0, block(0, 10));
        assert_eq!((buddy.length(name), buddy.allocated_from(name)), (4, 0));
    }

    #[test]
    fn a_block_is_claimed_only_as_it_is() {
        let mut buddy = machine(2048);
        assert_eq!(buddy.claim(block(0, 9)), None, "it is half of a free block");
        assert!(buddy.claim(block(1024, 10)).is_some());
        assert_eq!(buddy.claim(block(1024, 10)), None, "it is held");
        assert_eq!(buddy.claim(block(4096, 10)), None, "it lies in no zone");
    }

    #[test]
    #[should_panic(expected = "given back but not held")]
    fn a_block_that_is_freed_twice_is_a_bug() {
        let mut buddy = machine(1024);
        let taken = buddy.allocate(request(3, Movable)).unwrap();
        buddy.free(taken.block, CPU, taken.mark, End::Front);
        buddy.free(taken.block, CPU, taken.mark, End::Front);
    }

    #[test]
    #[should_panic(expected = "given back but not held")]
    fn a_part_of_a_held_block_is_freed_only_after_it_was_split() {
        let mut buddy = machine(1024);
        let taken = buddy.allocate(request(3, Movable)).unwrap();
        buddy.split(taken.block);
        for frame in taken.block.frames().take(4) {
            buddy.put(rampart_memory::FrameBlock::of(frame), taken.mark, End::Front);
        }
        assert_eq!(buddy.free_frames(crate::ZoneIndex(0)), 1020);
        buddy.put(block(4, 2), taken.mark, End::Front);
    }
}
