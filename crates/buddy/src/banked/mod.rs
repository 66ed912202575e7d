//! What the bank-aware buddy systems of [Panwar15, 4] have in common.
//!
//! **Problem.** There are three: an array of banks, lists of banks, and pools. They split, merge, retire and
//! isolate alike, and differ in which bank a request gets a block of. **Idea.** [`BankAllocator`] does all that is
//! alike; a [`BankPolicy`] picks the block. **Why this way.** Figures of the three then differ only for the reason that
//! is looked at, and one set of tests holds for all.
//!
//! The modules: `machine` has the operations, `memory` splits and merges blocks, `lists` stores them zone by zone,
//! `parts` knows which banks there are and what is in them.

mod lists;
mod machine;
mod memory;
mod parts;
mod searches;

use core::fmt;

use rampart_memory::{BlockOrder, Frame, FrameBlock};
use spin::mutex::SpinMutex;

use crate::{
    AllocatorStatistics, BankPart, BankPools, BankSets, BankSize, Cpu, Error, Footprint, FramePlace, LentStorage,
    Migratetype, PageAllocator, Request, Storage, Watermarks, Zone, ZoneIndex,
};
use machine::BankMachine;

pub use memory::{BankMemory, Grouping};
pub use parts::{Parts, Shelf, parts_of};
pub use searches::BankSearches;

/// Which bank a request gets a block of, and which pool a bank is in.
pub trait BankPolicy<'a, S: Storage<'a>>: Send {
    /// The name of the allocator.
    const NAME: &'static str;

    /// Which free blocks are on lists together.
    const GROUPING: Grouping;

    /// Learns which parts there are. Nothing is allocated yet.
    fn begin(&mut self, _: &BankMemory<'a, S>) {}

    /// Returns the first slot of a free block of this order or larger for a request, with its bank in the pool that the
    /// request makes it belong to. No block of an isolated bank.
    fn find(&mut self, memory: &mut BankMemory<'a, S>, zone: usize, order: BlockOrder, own: Migratetype)
    -> Option<u32>;

    /// Returns one in an offline bank, once [`BankPolicy::find`] has found none in any zone of the node. An allocator
    /// whose `find` looks there itself has none left.
    fn find_offline(&mut self, _: &mut BankMemory<'a, S>, _: usize, _: BlockOrder, _: Migratetype) -> Option<u32> {
        None
    }

    /// Returns one in a bank that is meant for others, once the other two have found none in any zone that the request
    /// may use as well.
    fn find_among_others(&mut self, _: &mut BankMemory<'a, S>, _: usize, _: BlockOrder, _: Migratetype) -> Option<u32> {
        None
    }

    /// Puts a set somewhere else.
    fn shelve(&mut self, memory: &mut BankMemory<'a, S>, set: usize, to: Shelf);

    /// A block of a set was freed: with its last one, the set goes offline.
    fn freed(&mut self, memory: &mut BankMemory<'a, S>, set: usize) {
        if memory.parts.can_go_offline(set) {
            self.shelve(memory, set, Shelf::Offline);
        }
    }

    /// Returns the memory of its structures.
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    /// [`BankPools::put_best_first`].
    fn put_best_first(&mut self, _: &BankMemory<'a, S>) {}
}

/// A bank-aware buddy system, behind a spin lock: [`AdaptiveBuddy`](crate::AdaptiveBuddy),
/// [`ArrayBanks`](crate::ArrayBanks) or [`ListBanks`](crate::ListBanks).
///
/// It has no lists of CPUs, so every CPU number is allowed. Free frames of an isolated bank are free, but in no pool:
/// requests do not get them, and neither [`free_frames`](PageAllocator::free_frames) nor the watermarks count them.
///
/// [`claim`](PageAllocator::claim) takes free frames of any bank, also of an isolated one. An offline bank joins the
/// user pool with it.
///
/// A bank whose frames are all free is offline. Retired frames do not matter: they hold nothing. The part of a bank
/// that a zone has because it begins or ends within, because the bank has a hole or the memory ends, is the kernel's
/// for good: it serves its zone and is never emptied [Panwar15, 4.1.2].
pub struct BankAllocator<'a, P, S: Storage<'a> = LentStorage<'a>> {
    machine: SpinMutex<BankMachine<'a, P, S>>,
}

impl<'a, P: BankPolicy<'a, S>, S: Storage<'a>> BankAllocator<'a, P, S> {
    /// Returns an allocator for these zones, with the policy for their parts.
    pub(crate) fn with(
        storage: &S,
        zones: &[Zone],
        bank: BankSize,
        sets: BankSets<'_>,
        policy: P,
    ) -> Result<Self, Error> {
        Ok(Self { machine: SpinMutex::new(BankMachine::new(storage, zones, bank, sets, policy)?) })
    }

    /// Returns the memory of the structures of its zones and banks.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let BankMachine { memory, policy } = &*self.machine.lock();
        memory.footprint() + policy.footprint()
    }

    /// Looks at the policy.
    pub(crate) fn policy<T>(&self, look: impl FnOnce(&P) -> T) -> T {
        look(&self.machine.lock().policy)
    }
}

impl<'a, P: BankPolicy<'a, S>, S: Storage<'a>> PageAllocator for BankAllocator<'a, P, S> {
    fn allocate(&self, request: Request) -> Option<FrameBlock> {
        self.machine.lock().allocate(&request)
    }

    fn free(&self, block: FrameBlock, _: Cpu) {
        self.machine.lock().free(block);
    }

    fn claim(&self, block: FrameBlock) -> bool {
        self.machine.lock().claim(block)
    }

    fn retire(&self, frame: Frame) -> FramePlace {
        self.machine.lock().memory.retire(frame)
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.machine.lock().memory.place(frame)
    }

    fn zone(&self, zone: ZoneIndex) -> Option<Zone> {
        self.machine.lock().memory.zones.get(zone.0).map(|lists| lists.zone)
    }

    fn free_frames(&self, zone: ZoneIndex) -> u64 {
        self.machine.lock().memory.parts.free_frames(zone.0)
    }

    fn watermarks(&self, zone: ZoneIndex) -> Watermarks {
        self.machine.lock().memory.zones[zone.0].watermarks
    }

    fn statistics(&self) -> AllocatorStatistics {
        self.machine.lock().memory.statistics
    }
}

impl<'a, P: BankPolicy<'a, S>, S: Storage<'a>> BankPools for BankAllocator<'a, P, S> {
    fn parts(&self) -> usize {
        self.machine.lock().memory.parts.len()
    }

    fn part(&self, part: usize) -> BankPart {
        self.machine.lock().memory.parts.state(part)
    }

    fn isolate(&self, part: usize) -> bool {
        self.machine.lock().isolate(part)
    }

    fn rejoin(&self, part: usize) {
        self.machine.lock().rejoin(part);
    }

    fn put_best_first(&self) {
        let BankMachine { memory, policy } = &mut *self.machine.lock();
        policy.put_best_first(memory);
    }
}

impl<'a, P: BankPolicy<'a, S>, S: Storage<'a>> fmt::Debug for BankAllocator<'a, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} parts of banks", P::NAME, self.parts())
    }
}
