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
//!
//! The modules: `parts` knows which banks and sets there are, `pool_lists` stores the lists of a zone, `blocks` splits
//! and merges their blocks, `machine` decides which pool a block comes from.

mod blocks;
mod machine;
mod parts;
mod pool_lists;
#[cfg(test)]
mod tests;

use core::fmt;

use rampart_memory::{Frame, FrameBlock};
use spin::mutex::SpinMutex;

use crate::{
    AllocatorStatistics, BankPart, BankPools, BankSets, BankSize, Cpu, Error, FramePlace, PageAllocator, Request,
    Watermarks, Zone, ZoneIndex,
};
use machine::PooledMachine;

pub use machine::StealRule;

/// The bank-aware buddy system of [Panwar15, 4.2], behind a spin lock.
///
/// It has no lists of CPUs, so every CPU number is allowed. Its statistics count as steals the banks that the kernel
/// took from the user pool. Free frames of an isolated bank are free, but in no pool: requests do not get them, and
/// neither [`free_frames`](PageAllocator::free_frames) nor the watermarks count them.
///
/// [`claim`](PageAllocator::claim) takes free frames of any bank, also of an isolated one. The set of an offline bank
/// joins the user pool with it.
///
/// With interleaved banks, isolation is that of the whole set, for as long as any of its parts is isolated.
///
/// An operation takes at most eleven splits or merges, with three exceptions. A set that changes its pool takes time in
/// proportion to its frames, at worst. A steal looks at each bank of the zone, as in [Panwar15, 4.1.2]. A free in a
/// block of the largest order that has a retired frame searches the freed frames.
pub struct AdaptiveBuddy {
    machine: SpinMutex<PooledMachine>,
}

impl AdaptiveBuddy {
    /// Returns an allocator for a machine of these zones, which may have holes between them. All frames are free, all
    /// whole banks are offline, and the lowest frames are allocated first.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large.
    pub fn new(zones: &[Zone], bank: BankSize, sets: &BankSets, steal: StealRule) -> Result<Self, Error> {
        Ok(Self { machine: SpinMutex::new(PooledMachine::new(zones, bank, sets, steal)?) })
    }
}

impl PageAllocator for AdaptiveBuddy {
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
        self.machine.lock().retire(frame)
    }

    fn place(&self, frame: Frame) -> FramePlace {
        let machine = self.machine.lock();
        machine.map.zone_of(frame).map_or(FramePlace::Absent, |zone| machine.zones[zone].place(frame))
    }

    fn zone(&self, zone: ZoneIndex) -> Option<Zone> {
        self.machine.lock().zones.get(zone.0).map(|lists| lists.zone)
    }

    fn free_frames(&self, zone: ZoneIndex) -> u64 {
        self.machine.lock().zones[zone.0].free_frames()
    }

    fn watermarks(&self, zone: ZoneIndex) -> Watermarks {
        self.machine.lock().zones[zone.0].watermarks
    }

    fn statistics(&self) -> AllocatorStatistics {
        self.machine.lock().statistics
    }
}

impl BankPools for AdaptiveBuddy {
    fn parts(&self) -> usize {
        self.machine.lock().parts.len()
    }

    fn part(&self, part: usize) -> BankPart {
        self.machine.lock().parts.state(part)
    }

    fn isolate(&self, part: usize) -> bool {
        self.machine.lock().isolate(part)
    }

    fn rejoin(&self, part: usize) {
        self.machine.lock().rejoin(part);
    }
}

impl fmt::Debug for AdaptiveBuddy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdaptiveBuddy of {} parts of banks", self.parts())
    }
}
