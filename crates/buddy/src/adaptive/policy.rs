//! The three pools: which block a request gets, and which sets change their pool for it.

use core::cmp::Reverse;

use rampart_memory::BlockOrder;

use crate::banked::{BankMemory, BankPolicy, Grouping, Shelf};
use crate::{End, Migratetype, Storage};

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

/// The policy of Adaptive-Buddy.
pub struct AdaptivePools {
    pub(super) steal: StealRule,
}

impl<'a, S: Storage<'a>> BankPolicy<'a, S> for AdaptivePools {
    const NAME: &'static str = "AdaptiveBuddy";
    const GROUPING: Grouping = Grouping::ByShelf;

    /// Takes a block of the request's own pool.
    fn find(
        &mut self,
        memory: &mut BankMemory<'a, S>,
        zone: usize,
        order: BlockOrder,
        own: Migratetype,
    ) -> Option<u32> {
        memory.zones[zone].first(Shelf::of(own) as u32, order)
    }

    /// Takes a block of an offline bank, which joins the pool [Panwar15, 4.2].
    fn find_offline(
        &mut self,
        memory: &mut BankMemory<'a, S>,
        zone: usize,
        order: BlockOrder,
        own: Migratetype,
    ) -> Option<u32> {
        let slot = memory.zones[zone].first(Shelf::Offline as u32, order)?;
        let part = memory.part_at(zone, slot);
        self.shelve(memory, memory.parts.set_of(part), Shelf::of(own));
        Some(slot)
    }

    /// Takes a block of the other pool; the kernel takes the whole bank [Panwar15, 4.1.2].
    fn find_among_others(
        &mut self,
        memory: &mut BankMemory<'a, S>,
        zone: usize,
        order: BlockOrder,
        own: Migratetype,
    ) -> Option<u32> {
        match own {
            Migratetype::Movable => memory.zones[zone].first(Shelf::Kernel as u32, order),
            Migratetype::Unmovable | Migratetype::Reclaimable => self.steal(memory, zone, order),
        }
    }

    fn shelve(&mut self, memory: &mut BankMemory<'a, S>, set: usize, to: Shelf) {
        // What went offline last comes back first, so that the other banks stay offline for long.
        let end = if to == Shelf::Offline { End::Front } else { End::Back };
        memory.move_set(set, to, end);
    }
}

impl AdaptivePools {
    /// Moves a set of the user pool with a block of this order to the kernel's, and returns such a block. Movable pages
    /// in the set stay where they are.
    #[cold]
    fn steal<'a, S: Storage<'a>>(
        &mut self,
        memory: &mut BankMemory<'a, S>,
        zone: usize,
        order: BlockOrder,
    ) -> Option<u32> {
        let parts = &memory.parts;
        let fits = |&part: &usize| parts.shelf_of(part) == Shelf::User && parts.has_block(part, order);
        let mut candidates = parts.of_zone(zone).filter(fits);
        let part = match self.steal {
            StealRule::MostFree => candidates.max_by_key(|&part| (parts.free_of_set(part), Reverse(part))),
            StealRule::Lowest => candidates.next(),
        }?;
        let set = parts.set_of(part);
        memory.statistics.steals += parts.of_set(set).len() as u64;
        self.shelve(memory, set, Shelf::Kernel);
        memory.first_beside(part, order)
    }
}
