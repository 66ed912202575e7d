//! Lists of banks [Panwar15, 4.1.2]: free lists for each bank, and lists of the banks of the kernel, of programs, and
//! of free banks.
//!
//! **Problem.** In an array of banks, a bank's place decides who uses it and which bank is emptied, however much it
//! holds. **Idea.** Banks are on one of three lists, `LIST_KERNEL`, `LIST_USER` and `LIST_FREE` (figure 4.2), wherever
//! they lie. A request gets a block of the first bank with room on its own list. **Why this way.** Any bank can serve
//! either side, so the emptiest can be emptied first. The price is a walk: two techniques shorten it, a cache and an
//! *optimal selection*.
//!
//! The rules:
//! - At first all banks are free. If a request finds nothing on its list, a free bank goes to the head of that list.
//!   With its last page, a bank goes back to the head of the free ones.
//! - If no bank is free either, a movable request uses the kernel's list. Any other takes the bank of the user list
//!   with most free frames among those with a large enough block, the lowest of several, over to the head of the
//!   kernel's list, where it stays until it is empty.
//! - Cache: the bank that served the last request of a list is looked at first, as long as it is on that list. Each of
//!   the two lists has its own, since a bank of the kernel is no help to programs.
//! - Optimal selection: [`put_best_first`](crate::BankPools::put_best_first) puts the bank with most free frames at the
//!   head of each of the two lists. In [Panwar15, 4.1.2] a kernel thread does so "after some interval"; here the owner
//!   of the allocator says when.
//! - A partial bank is on the kernel's list for good.
//!
//! Where [Panwar15, 4.1.2] has a movable request on the kernel's list behave "exactly like the default fallback
//! routine", this does not: without lists by migratetype in a bank, there is no other migratetype to take a block from.
//!
//! The modules: `cache` counts, `search` walks the lists of one zone.

mod cache;
mod search;
#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;

use rampart_memory::{BlockOrder, Bytes};

#[cfg(feature = "alloc")]
use crate::HeapStorage;
use crate::banked::{BankAllocator, BankMemory, BankPolicy, BankSearches, Grouping, Shelf, parts_of};
use crate::storage::StorageNeeds;
use crate::{BankSets, BankSize, End, Error, Footprint, LentStorage, Migratetype, Storage, Zone};
use search::{Search, ZoneBanks};

pub use cache::BankCache;

/// The list based bank-buddy allocator of [Panwar15, 4.1.2].
///
/// Its statistics count as steals the banks that the kernel took from the user list.
///
/// In a zone of n banks, an allocation looks at most at n + 1 of them, as each is on one list and the cached one may be
/// looked at twice: O(n), as in [Panwar15, 4.1.2]; twice for two watermarks. Of order k, it takes at most 10 - k
/// splits; a free looks at no other bank and takes at most 10 - k merges. No block changes its lists with its bank. A
/// free in a block of the largest order that has a retired frame looks at the 2^k freed frames, and if one of these is
/// retired, at each once per order. Tests assert the formulas (`step_tests`).
pub type ListBanks<'a, S = LentStorage<'a>> = BankAllocator<'a, BankLists<'a, S>, S>;

#[cfg(feature = "alloc")]
impl ListBanks<'static, HeapStorage> {
    /// Returns an allocator for a machine of these zones, which may have holes between them. All frames are free, and
    /// the lowest whole bank is the first of the free ones.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large.
    pub fn new(zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        Self::build(&HeapStorage, zones, bank)
    }
}

impl<'a> ListBanks<'a> {
    /// Returns how much memory [`ListBanks::within`] needs for a machine.
    ///
    /// # Errors
    /// As `within`.
    pub fn needs(zones: &[Zone], bank: BankSize) -> Result<Bytes, Error> {
        StorageNeeds::of(|measure| ListBanks::build(measure, zones, bank).map(drop))
    }

    /// Returns an allocator with its structures in this memory, whatever that holds; else as `new` does.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large, if the memory does not suffice.
    pub fn within(memory: &'a mut [MaybeUninit<u8>], zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        Self::build(&LentStorage::of(memory), zones, bank)
    }
}

impl<'a, S: Storage<'a>> ListBanks<'a, S> {
    fn build(storage: &S, zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        Self::with(storage, zones, bank, BankSets::plain(), BankLists::new(storage, zones, bank)?)
    }

    /// Returns how far allocations have searched so far. One search looks at no more than one bank more than its zone
    /// has.
    #[must_use]
    pub fn searches(&self) -> BankSearches {
        self.policy(|lists| lists.searches)
    }

    /// Returns how often the cache helped.
    #[must_use]
    pub fn cache(&self) -> BankCache {
        self.policy(|lists| lists.cache)
    }
}

/// The policy of the lists.
pub struct BankLists<'a, S: Storage<'a>> {
    zones: S::Array<ZoneBanks<'a, S>>,
    searches: BankSearches,
    cache: BankCache,
}

impl<'a, S: Storage<'a>> BankLists<'a, S> {
    fn new(storage: &S, zones: &[Zone], bank: BankSize) -> Result<Self, Error> {
        let zones = storage.array(zones.len(), |zone| ZoneBanks::new(storage, parts_of(&zones[zone], bank)))?;
        Ok(Self { zones, searches: BankSearches::default(), cache: BankCache::default() })
    }
}

impl<'a, S: Storage<'a>> BankPolicy<'a, S> for BankLists<'a, S> {
    const NAME: &'static str = "ListBanks";
    const GROUPING: Grouping = Grouping::ByPart;

    fn begin(&mut self, memory: &BankMemory<'a, S>) {
        for (zone, banks) in self.zones.iter_mut().enumerate() {
            banks.begin(&memory.parts, zone);
        }
    }

    fn find(
        &mut self,
        memory: &mut BankMemory<'a, S>,
        zone: usize,
        order: BlockOrder,
        own: Migratetype,
    ) -> Option<u32> {
        let own = Shelf::of(own);
        let mut search = Search::new(&self.zones[zone], &memory.parts, order);
        let cached = search.cached(own);
        let found = cached.or_else(|| search.first(own)).or_else(|| search.first(Shelf::Offline));
        let found = found.or_else(|| match own {
            Shelf::User => search.first(Shelf::Kernel),
            _ => search.with_most_free(Shelf::User),
        });
        self.searches.count(search.looked_at());
        let part = found?;
        self.cache.count(cached.is_some());
        let list = memory.parts.shelf_of(part);
        let falls_back = own == Shelf::User && list == Shelf::Kernel;
        if !falls_back {
            memory.statistics.steals += u64::from(list == Shelf::User && own == Shelf::Kernel);
            if list != own {
                self.shelve(memory, memory.parts.set_of(part), own);
            }
            self.zones[zone].set_cached(own, part);
        }
        memory.first_beside(part, order)
    }

    fn shelve(&mut self, memory: &mut BankMemory<'a, S>, set: usize, to: Shelf) {
        for part in memory.parts.of_set(set) {
            self.zones[memory.parts.zone_of(part)].put_first(part, to);
        }
        memory.move_set(set, to, End::Front);
    }

    fn footprint(&self) -> Footprint {
        self.zones.iter().map(ZoneBanks::footprint).sum()
    }

    fn put_best_first(&mut self, memory: &BankMemory<'a, S>) {
        for banks in &mut *self.zones {
            for list in [Shelf::Kernel, Shelf::User] {
                let best = Search::new(banks, &memory.parts, BlockOrder::ZERO).with_most_free(list);
                best.into_iter().for_each(|part| banks.put_first(part, list));
            }
        }
    }
}
