//! Allocates for a migratetype without free blocks: takes the largest block of another type and, if worthwhile, its
//! surroundings, so that the next requests of the type find blocks there and not all over the zone ([Panwar15, 2.2];
//! `__rmqueue_fallback` and `move_freepages_block` in mm/page_alloc.c, Linux 3.1).

use rampart_memory::BlockOrder;

use super::state::Begins;
use super::{PAGEBLOCK, ZoneAllocator, span};
use crate::{End, Mark, Migratetype, Storage};

impl<'a, M: Mark, S: Storage<'a>> ZoneAllocator<'a, M, S> {
    /// Picks the largest block of another migratetype and claims its surroundings. Returns the block, still on its
    /// list, the migratetype that it came from, and the one that its rest belongs to.
    pub(super) fn steal(&mut self, order: BlockOrder, own: Migratetype) -> Option<(u32, Migratetype, Migratetype)> {
        let large_enough = BlockOrder::all().skip(order.index()).rev();
        let candidates = large_enough.flat_map(|order| own.fallbacks().map(|other| (order, other)));
        let (order, other, slot) = candidates
            .filter_map(|(order, other)| Some((order, other, self.lists.at(order, other, End::Front)?)))
            .next()?;
        self.statistics.steals += 1;
        // A small block is only borrowed: moving its surroundings would mix the types there. Reclaimable requests come
        // in bursts, so keep them together from the start.
        let claims = order.number() >= PAGEBLOCK.number() / 2 || own == Migratetype::Reclaimable;
        if claims {
            self.claim_pageblocks(slot, order, own);
        }
        Some((slot, other, if claims { own } else { other }))
    }

    /// Moves the free blocks of the pageblocks that a block lies in to its new owner's lists. A pageblock at least half
    /// of which is moved changes its migratetype.
    fn claim_pageblocks(&mut self, slot: u32, order: BlockOrder, own: Migratetype) {
        let first = slot / span(PAGEBLOCK);
        let last = (slot + span(order) - 1) / span(PAGEBLOCK);
        for pageblock in first..=last {
            let inside = if order > PAGEBLOCK { span(PAGEBLOCK) } else { self.move_free_blocks(pageblock, own) };
            if inside >= span(PAGEBLOCK) / 2 {
                self.pageblocks[pageblock as usize] = own;
                self.statistics.pageblocks_claimed += 1;
            }
        }
    }

    /// Moves the free blocks of a pageblock to the front of `own`'s lists, and returns how many frames they have.
    fn move_free_blocks(&mut self, pageblock: u32, own: Migratetype) -> u32 {
        let first = pageblock * span(PAGEBLOCK);
        let end = first + span(PAGEBLOCK);
        let (mut slot, mut moved) = (first, 0);
        while slot < end {
            let Begins::Free(_, order) = self.lists.state(slot).begins() else {
                slot += 1;
                continue;
            };
            let (_, _, mark) = self.lists.remove(slot);
            self.lists.insert(slot, order, own, mark, End::Front);
            moved += span(order);
            slot += span(order);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use crate::Migratetype::{Movable, Reclaimable, Unmovable};
    use crate::testing::{CPU, SmallBuddy, at, block, free_blocks, list, machine, order, request, urgent};
    use crate::{AllocationOrigin, End, FreeLists, Migratetype};
    use rampart_memory::FrameBlock;

    /// Returns the free blocks of the first zone, as (first frame, order number, type).
    fn types(buddy: &SmallBuddy) -> Vec<(u64, u8, Migratetype)> {
        free_blocks(buddy)
            .iter()
            .map(|(block, own, _)| (block.first().number(), block.order().number(), *own))
            .collect()
    }

    #[test]
    fn the_largest_block_is_stolen_and_its_pageblocks_change_hands() {
        let mut buddy = machine(2048);
        let moved = buddy.allocate(request(5, Movable)).unwrap();
        let stolen = buddy.allocate(request(2, Unmovable)).unwrap();
        assert_eq!(
            (stolen.block, stolen.from),
            (block(1024, 2), AllocationOrigin::Global(list(10, Movable))),
            "not from the small rest"
        );
        assert!(types(&buddy).iter().all(|&(first, _, own)| own == if first < 1024 { Movable } else { Unmovable }));
        assert_eq!((buddy.statistics().steals, buddy.statistics().pageblocks_claimed), (1, 2));
        buddy.free(stolen.block, CPU, at(1), End::Front);
        buddy.free(moved.block, CPU, at(1), End::Front);
        assert_eq!(types(&buddy), [(0, 10, Movable), (1024, 10, Unmovable)], "it returns to its pageblock's lists");
    }

    /// Frees one block of each given order in an otherwise full machine of two pageblocks, apart from each other.
    fn nearly_full(orders: &[(u64, u8)]) -> SmallBuddy {
        let mut buddy = machine(1024);
        let (whole, mark) = buddy.take(list(10, Movable), End::Front).unwrap();
        buddy.split(whole);
        for &(first, number) in orders {
            for frame in block(first, number).frames() {
                buddy.put(FrameBlock::of(frame), mark, End::Front);
            }
        }
        buddy
    }

    #[test]
    fn with_half_of_a_pageblock_the_whole_is_claimed() {
        let mut buddy = nearly_full(&[(0, 7), (256, 7), (512, 4)]);
        buddy.allocate(request(1, Unmovable)).unwrap();
        assert_eq!(buddy.statistics().pageblocks_claimed, 1);
        assert!(
            types(&buddy).iter().all(|&(first, _, own)| (own == Unmovable) == (first < 512)),
            "its surroundings too"
        );
        let last = block(511, 0);
        buddy.put(last, at(1), End::Front);
        assert!(types(&buddy).contains(&(511, 0, Unmovable)), "what is freed there later belongs to the new owner");
    }

    #[test]
    fn with_less_than_half_the_free_blocks_move_and_the_pageblock_stays() {
        let mut buddy = nearly_full(&[(0, 6), (256, 7)]);
        buddy.allocate(request(1, Unmovable)).unwrap();
        assert_eq!(buddy.statistics().pageblocks_claimed, 0);
        assert!(types(&buddy).iter().all(|&(.., own)| own == Unmovable));
        buddy.put(block(511, 0), at(1), End::Front);
        assert!(types(&buddy).contains(&(511, 0, Movable)));
    }

    #[test]
    fn a_small_block_is_borrowed_and_its_rest_stays_unless_the_thief_is_reclaimable() {
        for thief in [Unmovable, Reclaimable] {
            let mut buddy = nearly_full(&[(0, 3), (256, 1)]);
            let stolen = buddy.allocate(urgent(1, thief)).unwrap();
            assert_eq!(stolen.from, AllocationOrigin::Global(list(3, Movable)));
            let rest = if thief == Reclaimable { Reclaimable } else { Movable };
            assert_eq!(types(&buddy), [(2, 1, rest), (4, 2, rest), (256, 1, rest)]);
        }
    }

    #[test]
    fn the_preferred_fallback_comes_first_among_blocks_of_one_order() {
        let mut buddy = machine(3072);
        for thief in [Unmovable, Reclaimable] {
            buddy.allocate(request(10, thief)).unwrap();
        }
        buddy.put(block(0, 10), at(1), End::Front);
        buddy.put(block(1024, 10), at(1), End::Front);
        let stolen = [(); 2].map(|()| buddy.allocate(request(10, Unmovable)).unwrap().from);
        assert_eq!(
            stolen,
            [AllocationOrigin::Global(list(10, Unmovable)), AllocationOrigin::Global(list(10, Reclaimable))]
        );
        assert_eq!(buddy.length(list(10, Movable)), 1);
        assert_eq!(super::PAGEBLOCK, order(9));
    }
}
