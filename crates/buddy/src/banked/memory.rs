//! The buddy algorithm on the blocks of a part [Panwar15, 2.1].
//!
//! All blocks that one operation touches lie in one part, for a bank is no smaller than the largest block.

use rampart_memory::{BlockOrder, Frame, FrameBlock};

use super::lists::GroupLists;
use super::parts::{Parts, Shelf, parts_of};
use crate::zone::slots::span;
use crate::zone::state::Begins;
use crate::zone_map::ZoneMap;
use crate::{
    AllocatorStatistics, BankSets, BankSize, End, Error, Footprint, FramePlace, Migratetype, Storage, Watermarks, Zone,
};

/// Which free blocks are on lists together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Those of a pool. A set that changes its pool takes its blocks along.
    ByShelf,
    /// Those of a bank. They never change their lists.
    ByPart,
}

/// The zones of a machine, their parts of banks, and all blocks.
pub struct BankMemory<'a, S: Storage<'a>> {
    /// Its zones.
    pub map: ZoneMap<'a, S>,
    /// The blocks of each zone.
    pub zones: S::Array<GroupLists<'a, S>>,
    /// What is in each part of a bank.
    pub parts: Parts<'a, S>,
    grouping: Grouping,
    /// The counts so far.
    pub statistics: AllocatorStatistics,
}

impl<'a, S: Storage<'a>> BankMemory<'a, S> {
    /// Returns a machine whose frames are all free; the lowest are allocated first.
    pub fn new(
        storage: &S,
        zones: &[Zone],
        bank: BankSize,
        sets: BankSets<'_>,
        grouping: Grouping,
    ) -> Result<Self, Error> {
        let map = ZoneMap::new(storage, zones)?;
        let machine = zones.iter().map(|zone| zone.frames.count()).sum();
        let parts = Parts::new(storage, zones, bank, sets)?;
        let lists = |index: usize| {
            let zone = zones[index];
            let groups = match grouping {
                Grouping::ByShelf => Shelf::COUNT,
                Grouping::ByPart => u32::try_from(parts_of(&zone, bank)).expect("fewer parts than frames"),
            };
            GroupLists::new(storage, zone, Watermarks::of(zone.frames.count(), machine), groups)
        };
        let lists = storage.array(zones.len(), lists)?;
        let mut new = Self { map, zones: lists, parts, grouping, statistics: AllocatorStatistics::default() };
        for zone in 0..new.zones.len() {
            new.zones[zone].begin();
            for (slot, order) in new.zones[zone].slots.fewest_blocks() {
                let part = new.part_at(zone, slot);
                new.insert(part, slot, order, End::Back);
            }
        }
        Ok(new)
    }

    /// Returns the memory of its structures.
    pub fn footprint(&self) -> Footprint {
        self.parts.footprint() + self.zones.iter().map(GroupLists::footprint).sum()
    }

    /// Returns the part that a slot of a zone lies in.
    #[inline]
    pub fn part_at(&self, zone: usize, slot: u32) -> usize {
        self.parts.part_of(zone, self.zones[zone].slots.frame(slot))
    }

    /// Returns the slot of a frame of a part.
    pub fn slot_of(&self, part: usize, frame: Frame) -> u32 {
        self.zones[self.parts.zone_of(part)].slots.slot(frame)
    }

    /// Returns the lists of the zone of a part.
    #[inline]
    fn lists(&mut self, part: usize) -> &mut GroupLists<'a, S> {
        &mut self.zones[self.parts.zone_of(part)]
    }

    #[inline]
    fn group(&self, part: usize) -> u32 {
        match self.grouping {
            Grouping::ByShelf => self.parts.shelf_of(part) as u32,
            Grouping::ByPart => self.parts.place(part),
        }
    }

    /// Returns the first of the smallest blocks that are large enough, of the banks that have their lists with a part.
    #[inline]
    pub fn first_beside(&self, part: usize, order: BlockOrder) -> Option<u32> {
        self.zones[self.parts.zone_of(part)].first(self.group(part), order)
    }

    /// Records that a set is elsewhere now, and moves its blocks to an end of the lists there.
    pub fn move_set(&mut self, set: usize, to: Shelf, end: End) {
        if self.grouping == Grouping::ByShelf {
            for part in self.parts.of_set(set) {
                self.zones[self.parts.zone_of(part)].move_blocks(self.parts.frames(part), to as u32, end);
            }
        }
        self.parts.set_shelf(set, to);
    }

    /// Takes the block of this order at slot `wanted` out of the free block at `slot`, and returns it held.
    #[inline]
    pub fn carve(&mut self, part: usize, slot: u32, wanted: u32, order: BlockOrder, own: Migratetype) -> FrameBlock {
        let (mut slot, mut larger) = (slot, self.remove(part, slot));
        while larger > order {
            larger = larger.below().expect("it is above another order");
            let upper = slot + span(larger);
            let (kept, rest) = if wanted < upper { (slot, upper) } else { (upper, slot) };
            self.insert(part, rest, larger, End::Front);
            self.statistics.splits += 1;
            slot = kept;
        }
        let is_movable = own == Migratetype::Movable;
        self.parts.hold(part, order, is_movable);
        self.lists(part).hold(slot, order, is_movable)
    }

    /// Returns the part that a held block lies in, after it has become free.
    #[inline]
    pub fn free(&mut self, block: FrameBlock) -> usize {
        let zone = self.map.zone_of(block.first());
        let zone = zone.unwrap_or_else(|| panic!("the block {block} is given back but lies in no zone"));
        let (slot, is_movable) = self.zones[zone].end_hold(block);
        let part = self.parts.part_of(zone, block.first());
        self.give_good(part, slot, block.order());
        self.parts.end_hold(part, block.order(), is_movable);
        self.statistics.freed += 1;
        part
    }

    /// Returns the part and the slot of the free block that has all of these frames.
    pub fn free_block_with(&self, block: FrameBlock) -> Option<(usize, u32)> {
        let zone = self.map.zone_of(block.first())?;
        match self.zones[zone].beginning(block.first())? {
            (slot, Begins::Free(_, order)) if order >= block.order() => {
                Some((self.parts.part_of(zone, block.first()), slot))
            }
            _ => None,
        }
    }

    /// Returns where a frame is.
    pub fn place(&self, frame: Frame) -> FramePlace {
        self.map.zone_of(frame).map_or(FramePlace::Absent, |zone| self.zones[zone].place(frame))
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
    fn insert(&mut self, part: usize, slot: u32, order: BlockOrder, end: End) {
        self.parts.count_in(part, order);
        let group = self.group(part);
        self.lists(part).push(slot, order, group, end);
    }

    /// Takes a block off its list, and returns its order.
    fn remove(&mut self, part: usize, slot: u32) -> BlockOrder {
        let order = self.lists(part).pull(slot);
        self.parts.count_out(part, order);
        order
    }
}
