//! The state of a part of a bank, and its place on a list.

use rampart_memory::BlockOrder;

use super::sync::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use super::word::SAMPLED;
use crate::BankPool;

/// Frames of a chunk: 2 MiB.
pub const CHUNK_FRAMES: usize = 512;

/// The order of a chunk.
pub const CHUNK_ORDER: u8 = 9;

/// Buckets of fullness: 0 is full, the last is empty.
pub const BUCKETS: u32 = 17;

/// The logarithms of the samples of a chunk and of the last bucket.
const CHUNK_SAMPLES_SHIFT: u32 = 5;
const LAST_BUCKET_SHIFT: u32 = 4;

const _: () =
    assert!(SAMPLED << CHUNK_SAMPLES_SHIFT == CHUNK_FRAMES && BUCKETS == (1 << LAST_BUCKET_SHIFT) + 1, "shifts");

/// No part, and no bucket.
pub const NONE: u32 = u32::MAX;

/// What all threads share of a part of a bank. It has a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub struct PartState {
    /// Free chunks in the upper half, sampled free frames outside of them in the lower.
    counts: AtomicU64,
    /// The pool, and flags.
    state: AtomicU32,
    /// The bucket whose list it is on. This and the links change only under the lock of the zone's lists.
    pub(super) bucket: AtomicU32,
    pub(super) next: AtomicU32,
    pub(super) previous: AtomicU32,
    /// The smallest order of which no block was found since frames were freed here; [`NONE`] if there is none.
    lacks: AtomicU32,
    /// The logarithm of its chunks: set once.
    chunks: AtomicU32,
}

impl Default for PartState {
    fn default() -> Self {
        Self {
            counts: AtomicU64::new(0),
            state: AtomicU32::new(PartFlags::of(BankPool::Offline).0),
            bucket: AtomicU32::new(NONE),
            next: AtomicU32::new(NONE),
            previous: AtomicU32::new(NONE),
            lacks: AtomicU32::new(NONE),
            chunks: AtomicU32::new(0),
        }
    }
}

/// The pool of a part, whether it is isolated, and whether it is partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartFlags(u32);

impl PartFlags {
    const ISOLATED: u32 = 1 << 2;
    const PARTIAL: u32 = 1 << 3;

    pub const fn of(pool: BankPool) -> Self {
        Self(pool as u32)
    }

    /// A partial part, which is the kernel's for good.
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
    /// Sets the state of a part that no other thread knows yet.
    pub(super) fn begin(&self, chunks: u32, flags: PartFlags) {
        self.counts.store(0, Relaxed);
        assert!(chunks.is_power_of_two(), "a bank is a power of two of chunks");
        self.chunks.store(chunks.trailing_zeros(), Relaxed);
        self.state.store(flags.0, Relaxed);
        self.lacks.store(NONE, Relaxed);
        self.bucket.store(NONE, Relaxed);
    }

    pub(super) fn flags(&self) -> PartFlags {
        PartFlags(self.state.load(SeqCst))
    }

    pub(super) fn set_flags(&self, flags: PartFlags) {
        self.state.swap(flags.0, SeqCst);
    }

    /// Changes the counts by this many free chunks and sampled frames.
    #[inline]
    pub(super) fn add(&self, chunks: i32, samples: i32) {
        let change = (i64::from(chunks) << 32) + i64::from(samples);
        self.counts.fetch_add(change.cast_unsigned(), SeqCst);
        if (chunks > 0 || samples > 0) && self.lacks.load(Relaxed) != NONE {
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

    /// Returns the number of free chunks.
    pub(super) fn free_chunks(&self) -> u32 {
        u32::try_from(self.split().0).unwrap_or(0)
    }

    /// Returns both counts. A thread counts what it has freed afterwards, and another may have taken and counted it
    /// before; so either may be below 0 for a moment.
    fn split(&self) -> (i64, i64) {
        let counts = self.counts.load(Relaxed).cast_signed();
        let samples = counts << i32::BITS >> i32::BITS;
        ((counts - samples) >> i32::BITS, samples)
    }

    /// Returns the number of chunks.
    pub(super) fn chunks(&self) -> u32 {
        1 << self.chunks.load(Relaxed)
    }

    /// Returns the bucket that it belongs to by its counts.
    pub(super) fn fullness(&self) -> u32 {
        let (chunks, samples) = self.split();
        let free = (chunks << CHUNK_SAMPLES_SHIFT) + samples;
        let bucket = free.max(0) >> (self.chunks.load(Relaxed) + CHUNK_SAMPLES_SHIFT - LAST_BUCKET_SHIFT);
        u32::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
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
    fn the_bucket_is_the_share_of_free_frames() {
        let part = PartState::default();
        part.begin(32, PartFlags::of(BankPool::User));
        assert_eq!(part.fullness(), 0);
        part.add(16, 0);
        assert_eq!(part.fullness(), 8);
        part.add(-1, 32);
        assert_eq!((part.fullness(), part.free_chunks()), (8, 15), "a broken chunk counts by its frames");
        part.add(0, -1);
        assert_eq!(part.fullness(), 7);
        part.add(17, -31);
        assert_eq!((part.fullness(), part.free_chunks()), (16, 32));
        part.add(0, -1);
        assert_eq!((part.fullness(), part.free_chunks()), (15, 32), "a sample was taken before it was counted as free");
        part.add(-33, 1);
        assert_eq!((part.fullness(), part.free_chunks()), (0, 0), "a chunk was");
    }
}
