//! The array of banks [Panwar15, 4.1.1]: free lists for each bank, and a scan for the first bank with room.
//!
//! **Problem.** Pages of the kernel among those of programs keep banks online, and so does a page in a bank that was
//! empty while another had room. **Idea.** Each bank has free lists of its own. Requests of the kernel look at the
//! banks from the lowest on, those for movable pages from the highest on (figure 4.1). So the two meet only when memory
//! is nearly full, and an empty bank is used only if no bank before it has room. **Why this way.** It is the simplest
//! bank-aware allocator, and the baseline of the others. Its cost is stated: an allocation looks at up to n banks of
//! the zone, n being all of them, and a free at none, for the frame's number names the bank.
//!
//! The array has no pools; who holds pages in a bank decides which pool it counts as: a bank with a page that cannot
//! move is the kernel's, one with only movable pages is the user's, and an empty one is offline. A partial bank is the
//! kernel's for good, but any request may get it when its turn in the scan comes, as in "we always use it for
//! allocation in both the zones" [Panwar15, 4.1.2].

#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;

use rampart_memory::{BlockOrder, Bytes};

#[cfg(feature = "alloc")]
use crate::HeapStorage;
use crate::banked::{BankAllocator, BankMemory, BankPolicy, BankSearches, Grouping, Shelf};
use crate::storage::StorageNeeds;
use crate::{BankSets, BankSize, End, Error, LentStorage, Migratetype, Storage, Zone};

/// The array based bank-buddy allocator of [Panwar15, 4.1.1].
///
/// Its statistics count no steals: the kernel's pages may lie beside any.
///
/// An allocation of order k looks at no more than the banks of each zone, twice for two watermarks, and takes at most
/// 10 - k splits; a free takes at most 10 - k merges. A free in a block of the largest order that has a retired frame
/// looks at the 2^k freed frames, and if one of these is retired, at each once per order. Tests assert the formulas
/// (`step_tests`).
pub type ArrayBanks<'a, S = LentStorage<'a>> = BankAllocator<'a, BankArray, S>;

#[cfg(feature = "alloc")]
impl ArrayBanks<'static, HeapStorage> {
    /// Returns an allocator for a machine of these zones, which may have holes between them. All frames are free.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large.
    pub fn new(zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        Self::build(&HeapStorage, zones, bank)
    }
}

impl<'a> ArrayBanks<'a> {
    /// Returns how much memory [`ArrayBanks::within`] needs for a machine.
    ///
    /// # Errors
    /// As `within`.
    pub fn needs(zones: &[Zone], bank: BankSize) -> Result<Bytes, Error> {
        StorageNeeds::of(|measure| ArrayBanks::build(measure, zones, bank).map(drop))
    }

    /// Returns an allocator with its structures in this memory, whatever that holds; else as `new` does.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large, if the memory does not suffice.
    pub fn within(memory: &'a mut [MaybeUninit<u8>], zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        Self::build(&LentStorage::of(memory), zones, bank)
    }
}

impl<'a, S: Storage<'a>> ArrayBanks<'a, S> {
    fn build(storage: &S, zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        Self::with(storage, zones, bank, BankSets::plain(), BankArray::default())
    }

    /// Returns how far allocations have searched so far. One search looks at no more banks than its zone has.
    #[must_use]
    pub fn searches(&self) -> BankSearches {
        self.policy(|array| array.searches)
    }
}

/// The policy of the array.
#[derive(Default)]
pub struct BankArray {
    searches: BankSearches,
}

impl<'a, S: Storage<'a>> BankPolicy<'a, S> for BankArray {
    const NAME: &'static str = "ArrayBanks";
    const GROUPING: Grouping = Grouping::ByPart;

    fn find(
        &mut self,
        memory: &mut BankMemory<'a, S>,
        zone: usize,
        order: BlockOrder,
        own: Migratetype,
    ) -> Option<u32> {
        let parts = &memory.parts;
        let mut looked_at = 0;
        let mut has_room = |part: &usize| {
            looked_at += 1;
            parts.has_block(*part, order) && parts.shelf_of(*part) != Shelf::Isolated
        };
        let found = match own {
            Migratetype::Movable => parts.of_zone(zone).rev().find(&mut has_room),
            Migratetype::Unmovable | Migratetype::Reclaimable => parts.of_zone(zone).find(&mut has_room),
        };
        self.searches.count(looked_at);
        let part = found?;
        let set = memory.parts.set_of(part);
        match (own, memory.parts.shelf(set)) {
            (Migratetype::Movable, Shelf::Offline) => self.shelve(memory, set, Shelf::User),
            (Migratetype::Movable, _) | (_, Shelf::Kernel) => {}
            _ => self.shelve(memory, set, Shelf::Kernel),
        }
        memory.first_beside(part, order)
    }

    fn shelve(&mut self, memory: &mut BankMemory<'a, S>, set: usize, to: Shelf) {
        memory.move_set(set, to, End::Front);
    }

    fn freed(&mut self, memory: &mut BankMemory<'a, S>, set: usize) {
        if memory.parts.can_go_offline(set) {
            self.shelve(memory, set, Shelf::Offline);
        } else if memory.parts.shelf(set) == Shelf::Kernel && memory.parts.is_movable(set) {
            self.shelve(memory, set, Shelf::User);
        }
    }
}
