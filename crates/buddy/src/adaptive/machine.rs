//! The pools of a whole machine: which block a request gets, and which sets change their pool for it.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

use rampart_memory::{BlockOrder, FrameBlock};

use super::parts::{Parts, Shelf};
use super::pool_lists::PoolLists;
use crate::zone_map::ZoneMap;
use crate::{AllocatorStatistics, BankSets, BankSize, End, Error, Migratetype, Request, Watermarks, Zone};

/// Which bank of the user pool the kernel takes when no other has a block for it. Only banks with a large enough block
/// are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StealRule {
    /// The one with most free frames [Panwar15, 4.2], the lowest of several; interleaved banks count together.
    MostFree,
    /// The lowest: an arbitrary one, to see what the choice is worth. [Panwar15, 4.1.2] finds that an arbitrary choice
    /// can be worse than no pools at all.
    Lowest,
}

/// The allocator, for one owner.
pub struct PooledMachine {
    pub(super) map: ZoneMap,
    pub(super) zones: Vec<PoolLists>,
    pub(super) parts: Parts,
    steal: StealRule,
    pub(super) statistics: AllocatorStatistics,
}

impl PooledMachine {
    /// Returns a machine whose frames are all free; the lowest are allocated first.
    pub fn new(zones: &[Zone], bank: BankSize, sets: &BankSets, steal: StealRule) -> Result<Self, Error> {
        let map = ZoneMap::new(zones)?;
        let machine = zones.iter().map(|zone| zone.frames.count()).sum();
        let lists = |&zone: &Zone| PoolLists::new(zone, Watermarks::of(zone.frames.count(), machine));
        let mut new = Self {
            map,
            zones: zones.iter().map(lists).collect(),
            parts: Parts::new(zones, bank, sets),
            steal,
            statistics: AllocatorStatistics::default(),
        };
        for zone in 0..zones.len() {
            let slots = new.zones[zone].slots;
            for (slot, order) in slots.fewest_blocks() {
                let part = new.parts.part_of(zone, slots.frame(slot));
                new.insert(part, slot, order, End::Back);
            }
        }
        Ok(new)
    }

    /// Returns the lists of the zone of a part.
    pub(super) fn lists(&mut self, part: usize) -> &mut PoolLists {
        &mut self.zones[self.parts.part(part).zone]
    }

    /// Allocates a block: in each zone down to the low watermark, then in each down to min, or to the last frame if the
    /// request is urgent.
    pub fn allocate(&mut self, request: &Request) -> Option<FrameBlock> {
        let floor = |marks: Watermarks| if request.urgent { 0 } else { marks.min };
        let block = self.first(request, |marks| marks.low).or_else(|| self.first(request, floor));
        self.statistics.allocated += u64::from(block.is_some());
        self.statistics.refused += u64::from(block.is_none());
        block
    }

    /// Allocates from the first zone of the request's zonelist that keeps `floor` frames free. Programs take room of
    /// the kernel only if no zone has other memory for them; else they would push it into more banks. The kernel's
    /// memory stays on its node as long as the node has a block for it.
    fn first(&mut self, request: &Request, floor: impl Fn(Watermarks) -> u64) -> Option<FrameBlock> {
        let all = self.zones.len();
        let mut begin = 0;
        while begin < all {
            let node = self.map.zonelist(request.node)[begin..].iter().map(|&zone| self.zones[zone].zone.node);
            let same = node.clone().take_while(|&other| Some(other) == node.clone().next()).count();
            let end = if request.migratetype == Migratetype::Movable { all } else { begin + same };
            let found = self.first_in(begin..end, request, &floor);
            if found.is_some() {
                return found;
            }
            begin = end;
        }
        None
    }

    /// Allocates from the zones at these places of the request's zonelist.
    fn first_in(
        &mut self,
        places: Range<usize>,
        request: &Request,
        floor: &impl Fn(Watermarks) -> u64,
    ) -> Option<FrameBlock> {
        [Self::find_own, Self::find_others].iter().find_map(|find| {
            places.clone().find_map(|place| {
                let zone = self.map.zonelist(request.node)[place];
                let lists = &self.zones[zone];
                let spare = lists.free_frames().checked_sub(floor(lists.watermarks))?;
                let slot = if spare < request.order.frames() { None } else { find(self, zone, request) }?;
                let part = self.parts.part_of(zone, self.zones[zone].slots.frame(slot));
                Some(self.carve(part, slot, slot, request.order))
            })
        })
    }

    /// Returns the first slot of a free block of the request's order or larger in the user's own pool, or in an offline
    /// bank [Panwar15, 4.2].
    fn find_own(&mut self, zone: usize, request: &Request) -> Option<u32> {
        let own = if request.migratetype == Migratetype::Movable { Shelf::User } else { Shelf::Kernel };
        self.zones[zone].first(own, request.order).or_else(|| self.bring_online(zone, request.order, own))
    }

    /// Returns the first slot of such a block in a bank of the other user [Panwar15, 4.1.2].
    fn find_others(&mut self, zone: usize, request: &Request) -> Option<u32> {
        match request.migratetype {
            Migratetype::Movable => self.zones[zone].first(Shelf::Kernel, request.order),
            Migratetype::Unmovable | Migratetype::Reclaimable => self.steal(zone, request.order),
        }
    }

    /// Moves the set of an offline block to a pool, and returns the block.
    fn bring_online(&mut self, zone: usize, order: BlockOrder, to: Shelf) -> Option<u32> {
        let slot = self.zones[zone].first(Shelf::Offline, order)?;
        let part = self.parts.part_of(zone, self.zones[zone].slots.frame(slot));
        self.move_set(self.parts.set_of(part), to);
        Some(slot)
    }

    /// Moves a set of the user pool with a block of this order to the kernel's, and returns such a block. Movable pages
    /// in the set stay where they are.
    #[cold]
    fn steal(&mut self, zone: usize, order: BlockOrder) -> Option<u32> {
        let candidates = self.parts.user_parts(zone, order);
        let (part, _) = match self.steal {
            StealRule::MostFree => candidates.max_by_key(|&(part, free)| (free, Reverse(part))),
            StealRule::Lowest => candidates.min_by_key(|&(part, _)| part),
        }?;
        let set = self.parts.set_of(part);
        self.statistics.steals += self.parts.of_set(set).len() as u64;
        self.move_set(set, Shelf::Kernel);
        self.zones[zone].first(Shelf::Kernel, order)
    }

    /// Moves all parts of a set, with their free blocks, to another shelf.
    pub(super) fn move_set(&mut self, set: usize, to: Shelf) {
        let Self { zones, parts, .. } = self;
        let from = parts.shelf(set);
        // What went offline last comes back first, so that the other banks stay offline for long.
        let end = if to == Shelf::Offline { End::Front } else { End::Back };
        for &part in parts.of_set(set) {
            let part = parts.part(part);
            zones[part.zone].move_blocks(part.frames, from, to, end);
        }
        parts.set_shelf(set, to);
    }

    /// Isolates a part and with it its set, if that is in the user pool.
    pub fn isolate(&mut self, part: usize) -> bool {
        let set = self.parts.set_of(part);
        match self.parts.shelf(set) {
            Shelf::Kernel | Shelf::Offline => return false,
            Shelf::User => self.move_set(set, Shelf::Isolated),
            Shelf::Isolated => {}
        }
        self.parts.set_isolated(part, true);
        true
    }

    /// Ends the isolation of a part, and that of its set if no other part of it is isolated.
    pub fn rejoin(&mut self, part: usize) {
        let set = self.parts.set_of(part);
        self.parts.set_isolated(part, false);
        if self.parts.shelf(set) == Shelf::Isolated && !self.parts.any_isolated(set) {
            self.move_set(set, Shelf::User);
        }
    }
}
