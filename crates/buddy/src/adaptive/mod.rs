//! Adaptive-Buddy: a buddy system that keeps the pages of the kernel together in few banks [Panwar15, 4.2].
//!
//! **Problem.** One unmovable page keeps a whole bank online. Linux keeps such pages apart by 2 MiB, so after some time
//! most banks have one. **Idea.** Each bank belongs to a pool, the kernel's, the user's or the offline one, and each
//! pool has free lists of its own. A pool without a block of the wanted size takes a whole bank: first one that is
//! offline, then, for the kernel, the one of the user pool with most free frames, as that one has the fewest pages that
//! are stuck among the kernel's from then on. **Why this way.** Lists per pool, not per bank, make the usual allocation
//! and free as fast as in a buddy system, and take as little memory.
//!
//! The rules:
//! - A bank whose frames are all free joins the offline pool, from whichever pool. Retired frames do not matter: they
//!   hold nothing.
//! - Movable requests use the user pool, then an offline bank, then the kernel's pool. All others use the kernel's
//!   pool, then an offline bank, then steal a bank of the user pool.
//! - So no request fails while any pool of its zone has a block of its order, unless a watermark forbids it.
//! - The part of a bank that a zone has because it begins or ends within is the kernel's for good [Panwar15, 4.1.2].
//! - Banks of one of the [`BankSets`] do all this together, even across zones. A set with a partial bank is the
//!   kernel's for good.

mod policy;
#[cfg(test)]
mod tests;

use core::mem::MaybeUninit;

use rampart_memory::Bytes;

#[cfg(feature = "alloc")]
use crate::HeapStorage;
use crate::banked::BankAllocator;
use crate::storage::StorageNeeds;
use crate::{BankSets, BankSize, Error, LentStorage, Storage, Zone};
use policy::AdaptivePools;

pub use policy::StealRule;

/// The bank-aware buddy system of [Panwar15, 4.2], with free lists for each pool.
///
/// Its statistics count as steals the banks that the kernel took from the user pool.
///
/// With interleaved banks, isolation is that of the whole set, for as long as any of its parts is isolated. So is a
/// claim in an offline bank: its set joins the user pool.
///
/// The steps of an operation on a block of order k are bounded, and tests assert the formulas (`step_tests`):
/// - A block is cut, or merged, 10 - k times at most.
/// - An allocation looks at 3 (11 - k) lists of each zone. For the kernel it also looks at each bank, once for its pool
///   and once for its room, and compares the free frames of each set of the zone as in [Panwar15, 4.1.2]. It does all
///   that twice at most, for two watermarks.
/// - A set of F frames that changes its pool, once in an operation, takes at most F looks at frames and F/2 blocks from
///   one list to another. That is the worst case by far: if every second frame of a bank of 256 MiB is free, a steal
///   moves 32,768 blocks. A set that goes offline has only F/1024 blocks, unless frames of it are retired.
/// - A free in a block of the largest order that has a retired frame looks at the 2^k freed frames, and if one of these
///   is retired, at each once per order.
pub type AdaptiveBuddy<'a, S = LentStorage<'a>> = BankAllocator<'a, AdaptivePools, S>;

#[cfg(feature = "alloc")]
impl AdaptiveBuddy<'static, HeapStorage> {
    /// Returns an allocator for a machine of these zones, which may have holes between them. All frames are free, all
    /// whole banks are offline, and the lowest frames are allocated first.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large.
    pub fn new(zones: &[Zone], bank: BankSize, sets: &BankSets<'_>, steal: StealRule) -> Result<Self, Error> {
        Self::build(&HeapStorage, zones, bank, sets, steal)
    }
}

impl<'a> AdaptiveBuddy<'a> {
    /// Returns how much memory [`AdaptiveBuddy::within`] needs for a machine.
    ///
    /// # Errors
    /// As `within`.
    pub fn needs(zones: &[Zone], bank: BankSize) -> Result<Bytes, Error> {
        let build = |measure: &StorageNeeds| {
            AdaptiveBuddy::build(measure, zones, bank, &BankSets::plain(), StealRule::MostFree).map(drop)
        };
        StorageNeeds::of(build)
    }

    /// Returns an allocator with its structures in this memory, whatever that holds; else as `new` does.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large, if the memory does not suffice.
    pub fn within(
        memory: &'a mut [MaybeUninit<u8>],
        zones: &[Zone],
        bank: BankSize,
        sets: &BankSets<'_>,
        steal: StealRule,
    ) -> Result<Self, Error> {
        Self::build(&LentStorage::of(memory), zones, bank, sets, steal)
    }
}

impl<'a, S: Storage<'a>> AdaptiveBuddy<'a, S> {
    fn build(
        storage: &S,
        zones: &[Zone],
        bank: BankSize,
        sets: &BankSets<'_>,
        steal: StealRule,
    ) -> Result<Self, Error> {
        Self::with(storage, zones, bank, *sets, AdaptivePools { steal })
    }
}
