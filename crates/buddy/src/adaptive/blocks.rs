//! The buddy algorithm on the blocks of a part [Panwar15, 2.1].
//!
//! All blocks that one operation touches lie in one part, for a bank is no smaller than the largest block.

use rampart_memory::{BlockOrder, Frame, FrameBlock};

use super::machine::PooledMachine;
use super::parts::Shelf;
use crate::zone::slots::span;
use crate::zone::state::Begins;
use crate::{End, FramePlace};

impl PooledMachine {
    /// Takes the block of this order at slot `wanted` out of the free block at `slot`, and returns it held.
    pub(super) fn carve(&mut self, part: usize, slot: u32, wanted: u32, order: BlockOrder) -> FrameBlock {
        let (mut slot, mut larger) = (slot, self.remove(part, slot));
        while larger > order {
            larger = larger.below().expect("it is above another order");
            let upper = slot + span(larger);
            let (kept, rest) = if wanted < upper { (slot, upper) } else { (upper, slot) };
            self.insert(part, rest, larger, End::Front);
            self.statistics.splits += 1;
            slot = kept;
        }
        self.parts.hold(part, order.frames());
        self.lists(part).hold(slot, order)
    }

    /// Takes exactly these frames if all are free. As a bank with a held page is not offline, its set joins the user
    /// pool: who asks for frames by their number gives them back soon.
    pub fn claim(&mut self, block: FrameBlock) -> bool {
        let Some(zone) = self.map.zone_of(block.first()) else { return false };
        let lists = &self.zones[zone];
        let Some((slot, Begins::Free(_, order))) = lists.beginning(block.first()) else { return false };
        if order < block.order() {
            return false;
        }
        let (wanted, part) = (lists.slots.slot(block.first()), self.parts.part_of(zone, block.first()));
        let set = self.parts.set_of(part);
        if self.parts.shelf(set) == Shelf::Offline {
            self.move_set(set, Shelf::User);
        }
        self.carve(part, slot, wanted, block.order());
        true
    }

    /// Frees a held block. With its last held block, a set goes offline.
    pub fn free(&mut self, block: FrameBlock) {
        let zone = self.map.zone_of(block.first());
        let zone = zone.unwrap_or_else(|| panic!("the block {block} is given back but lies in no zone"));
        let slot = self.zones[zone].end_hold(block);
        let part = self.parts.part_of(zone, block.first());
        self.give_good(part, slot, block.order());
        self.statistics.freed += 1;
        if let Some(set) = self.parts.end_hold(part, block.count()) {
            self.move_set(set, Shelf::Offline);
        }
    }

    /// Retires a frame, and returns where it was.
    pub fn retire(&mut self, frame: Frame) -> FramePlace {
        let Some(zone) = self.map.zone_of(frame) else { return FramePlace::Absent };
        let lists = &mut self.zones[zone];
        let (was, slot) = (lists.place(frame), lists.slots.slot(frame));
        if lists.state(slot).is_retired() {
            return was;
        }
        self.statistics.retired += 1;
        if let Some((first, Begins::Free(_, order))) = lists.beginning(frame) {
            let part = self.parts.part_of(zone, frame);
            self.remove(part, first);
            self.zones[zone].set_retired(slot);
            self.give_good(part, first, order);
        } else {
            lists.set_retired(slot);
        }
        was
    }

    /// Gives a block that is on no list to the lists, in the largest parts without a retired frame.
    fn give_good(&mut self, part: usize, slot: u32, order: BlockOrder) {
        if self.lists(part).is_good(slot, order) {
            self.give(part, slot, order);
        } else if let Some(half) = order.below() {
            self.give_good(part, slot, half);
            self.give_good(part, slot + span(half), half);
        }
    }

    /// Puts a block that is on no list and has no retired frame on a list, merged with all free buddies.
    fn give(&mut self, part: usize, slot: u32, order: BlockOrder) {
        let (mut slot, mut order) = (slot, order);
        while let Some(above) = order.above() {
            let buddy = slot ^ span(order);
            if !self.lists(part).state(buddy).is_free_block_of(order) {
                break;
            }
            self.remove(part, buddy);
            slot &= buddy;
            order = above;
            self.statistics.merges += 1;
        }
        self.insert(part, slot, order, End::Front);
    }

    /// Puts a block that is on no list on a list of its part.
    pub(super) fn insert(&mut self, part: usize, slot: u32, order: BlockOrder, end: End) {
        let shelf = self.parts.count_in(part, order);
        self.lists(part).push(slot, order, shelf, end);
    }

    /// Takes a block off its list, and returns its order.
    fn remove(&mut self, part: usize, slot: u32) -> BlockOrder {
        let shelf = self.parts.shelf(self.parts.set_of(part));
        let order = self.lists(part).pull(slot, shelf);
        self.parts.count_out(part, order);
        order
    }
}
