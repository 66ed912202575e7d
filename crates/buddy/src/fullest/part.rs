//! The state of a part of a bank, and its place on a list.

use rampart_memory::BlockOrder;

use super::sync::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use crate::BankPool;

/// Frames of a chunk: 2 MiB.
pub const CHUNK_FRAMES: usize = 512;

/// The order of a chunk.
pub const CHUNK_ORDER: u8 = 9;

/// Buckets of fullness: 0 is full, the last is empty.
pub const BUCKETS: u32 = 17;

/// No part, and no bucket.
pub const NONE: u32 = u32::MAX;

/// What all threads share of a part of a bank. It has a cache line of its own.
///
/// Banks that are interleaved are one *unit*: the state of its first part is that of all its parts. A bank that is in
/// no set is a unit by itself.
#[derive(Debug)]
#[repr(align(64))]
pub struct PartState {
    /// The pool, and flags, of the unit.
    state: AtomicU32,
    /// The bucket whose list the unit is on. This and the links change only under the lock of the zone's lists.
    pub(super) bucket: AtomicU32,
    pub(super) next: AtomicU32,
    pub(super) previous: AtomicU32,
    /// The smallest order of which no block was found in the unit since frames were freed there; [`NONE`] if there is
    /// none.
    lacks: AtomicU32,
    /// The first part of its unit, and the part after it: the last one's is the first. Set once.
    first: AtomicU32,
    beside: AtomicU32,
    /// Whether this part itself was isolated. It changes only under the lock of the zone's lists.
    isolated: AtomicU32,
}

impl Default for PartState {
    fn default() -> Self {
        Self {
            state: AtomicU32::new(PartFlags::of(BankPool::Offline).0),
            bucket: AtomicU32::new(NONE),
            next: AtomicU32::new(NONE),
            previous: AtomicU32::new(NONE),
            lacks: AtomicU32::new(NONE),
            first: AtomicU32::new(0),
            beside: AtomicU32::new(0),
            isolated: AtomicU32::new(0),
        }
    }
}

/// The pool of a unit, whether it is isolated, and whether it is the kernel's for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartFlags(u32);

impl PartFlags {
    const ISOLATED: u32 = 1 << 2;
    const PARTIAL: u32 = 1 << 3;

    pub const fn of(pool: BankPool) -> Self {
        Self(pool as u32)
    }

    /// Those of a unit with a part that is less than a bank, which is the kernel's for good.
    pub const fn partial() -> Self {
        Self(BankPool::Kernel as u32 | Self::PARTIAL)
    }

    pub const fn isolated(self) -> Self {
        Self(self.0 | Self::ISOLATED)
    }

    pub const fn pool(self) -> BankPool {
        match self.0 & 3 {
            0 => BankPool::Kernel,
            1 => BankPool::User,
            _ => BankPool::Offline,
        }
    }

    pub const fn is_isolated(self) -> bool {
        self.0 & Self::ISOLATED != 0
    }

    pub const fn is_partial(self) -> bool {
        self.0 & Self::PARTIAL != 0
    }
}

impl PartState {
    /// Sets the state of a part that no other thread knows yet, and that is alone.
    pub(super) fn begin(&self, part: usize, flags: PartFlags) {
        let part = u32::try_from(part).expect("few parts");
        self.state.store(flags.0, Relaxed);
        self.lacks.store(NONE, Relaxed);
        self.bucket.store(NONE, Relaxed);
        self.first.store(part, Relaxed);
        self.beside.store(part, Relaxed);
        self.isolated.store(0, Relaxed);
    }

    /// Joins the unit of another part, behind its last one. No other thread knows them yet.
    pub(super) fn join(&self, first: &Self, last: &Self) {
        let number = self.first.load(Relaxed);
        last.beside.store(number, Relaxed);
        self.beside.store(first.first.load(Relaxed), Relaxed);
        self.first.store(first.first.load(Relaxed), Relaxed);
        if self.flags().is_partial() {
            first.set_flags(PartFlags::partial());
        }
    }

    /// Returns the first part of its unit, which stands for it.
    #[inline]
    pub(super) fn unit(&self) -> usize {
        self.first.load(Relaxed) as usize
    }

    /// Returns the next part of its unit.
    pub(super) fn beside(&self) -> usize {
        self.beside.load(Relaxed) as usize
    }

    pub(super) fn is_isolated_itself(&self) -> bool {
        self.isolated.load(Relaxed) != 0
    }

    pub(super) fn isolate_itself(&self, isolated: bool) {
        self.isolated.store(u32::from(isolated), Relaxed);
    }

    #[inline]
    pub(super) fn flags(&self) -> PartFlags {
        PartFlags(self.state.load(SeqCst))
    }

    pub(super) fn set_flags(&self, flags: PartFlags) {
        self.state.swap(flags.0, SeqCst);
    }

    /// Says that frames were freed here.
    #[inline]
    pub(super) fn forget_lack(&self) {
        if self.lacks.load(Relaxed) != NONE {
            self.lacks.store(NONE, Relaxed);
        }
    }

    /// Remembers that no block of this order was found.
    pub(super) fn remember_lack(&self, order: BlockOrder) {
        self.lacks.fetch_min(u32::from(order.number()), Relaxed);
    }

    /// Whether a search for a block of this order is probably in vain.
    pub(super) fn seems_to_lack(&self, order: BlockOrder) -> bool {
        self.lacks.load(Relaxed) <= u32::from(order.number())
    }

    pub(super) fn is_listed(&self) -> bool {
        self.bucket.load(SeqCst) != NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_back_as_they_were_written() {
        for pool in [BankPool::Kernel, BankPool::User, BankPool::Offline] {
            let flags = PartFlags::of(pool);
            assert_eq!((flags.pool(), flags.is_isolated(), flags.is_partial()), (pool, false, false));
            assert_eq!((flags.isolated().pool(), flags.isolated().is_isolated()), (pool, true));
        }
        assert!(PartFlags::partial().is_partial() && PartFlags::partial().pool() == BankPool::Kernel);
    }

    #[test]
    fn parts_of_a_unit_form_a_ring_and_a_partial_one_makes_it_the_kernels() {
        let parts: Vec<PartState> = (0..4).map(|_| PartState::default()).collect();
        (0..4).for_each(|part| parts[part].begin(part, PartFlags::of(BankPool::Offline)));
        parts[3].begin(3, PartFlags::partial());
        parts[1].join(&parts[0], &parts[0]);
        assert_eq!((parts[0].flags().pool(), parts[2].unit(), parts[2].beside()), (BankPool::Offline, 2, 2));
        parts[3].join(&parts[0], &parts[1]);
        assert!(parts[0].flags().is_partial());
        let ring: Vec<usize> = core::iter::successors(Some(0), |&part| Some(parts[part].beside())).take(4).collect();
        assert_eq!(ring, [0, 1, 3, 0]);
        assert!([0, 1, 3].iter().all(|&part| parts[part].unit() == 0));
    }
}
