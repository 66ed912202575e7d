//! A group of chunks of a bank, in a cache line of its own: which are free as a whole, which have free frames.
//!
//! A chunk is *whole* if all of its frames are free, *held* if it was given out as a whole, and else *broken*: then its
//! words say which of its frames are free. The words of whole and held chunks are zero. As one word has the state of
//! all chunks of a group, a chunk is given out, and comes back, by one operation.

use super::cpu::CHUNK_WORDS;
use super::part::CHUNK_ORDER;
use super::sync::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The logarithm of the most chunks of a group: 64 MiB.
pub const GROUP_SHIFT: u32 = 5;

/// The bits of whole chunks.
const WHOLE: u64 = 0xffff_ffff;

/// The whole chunks that begin at a multiple of two.
const EVEN: u64 = 0x5555_5555;

const _: () = assert!(WHOLE.count_ones() == 1 << GROUP_SHIFT, "a bit for each chunk");

/// What all threads share of a group of chunks. It has a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct GroupState {
    /// A bit for each whole chunk, and in the upper half one for each held chunk.
    chunks: AtomicU64,
    /// A bit for each broken chunk with a free frame, unless a CPU has it for itself.
    some: AtomicU32,
    /// Free frames outside of whole chunks, by samples. A thread counts what it has freed afterwards, and another may
    /// have taken and counted it before; so it may be below 0 for a moment.
    free: AtomicI32,
    /// The number of the CPU that allocates here, plus one; 0 is none. Others prefer other groups of the same bank.
    owner: AtomicU32,
    /// The bank, or the first of the set of banks, that it belongs to.
    unit: AtomicU32,
}

/// The words of a chunk, in a cache line of their own: a bit for each frame.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ChunkWords(pub(super) [AtomicU64; CHUNK_WORDS]);

impl GroupState {
    /// Sets the state of a group that no other thread knows yet: nothing in it is free.
    pub(super) fn begin(&self) {
        self.chunks.store(0, Relaxed);
        self.some.store(0, Relaxed);
        self.free.store(0, Relaxed);
        self.owner.store(0, Relaxed);
    }

    /// Writes all again as sequentially consistent.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(super) fn settle(&self) {
        self.chunks.fetch_or(0, SeqCst);
        self.some.fetch_or(0, SeqCst);
        self.free.fetch_or(0, SeqCst);
        self.unit.fetch_or(0, SeqCst);
    }

    pub(super) fn set_unit(&self, unit: usize) {
        self.unit.store(u32::try_from(unit).expect("few banks"), Relaxed);
    }

    #[inline]
    pub(super) fn unit(&self) -> usize {
        self.unit.load(Relaxed) as usize
    }

    /// Returns the bits of the whole chunks.
    #[inline]
    pub(super) fn whole(&self) -> u64 {
        self.chunks.load(SeqCst) & WHOLE
    }

    /// Returns the bits of whole chunks, or of the first of each two that are buddies.
    #[inline]
    const fn first_of(chunks: u64, two: bool) -> u64 {
        let whole = chunks & WHOLE;
        if two { whole & whole >> 1 & EVEN } else { whole }
    }

    /// Whether a whole chunk, or two that are buddies, are free.
    pub(super) fn has_whole(&self, two: bool) -> bool {
        Self::first_of(self.chunks.load(SeqCst), two) != 0
    }

    /// Takes the first whole chunk, or the first two that are buddies, and returns its place.
    #[inline]
    pub(super) fn take_first(&self, two: bool) -> Option<usize> {
        let mut now = self.chunks.load(SeqCst);
        loop {
            let free = Self::first_of(now, two);
            if free == 0 {
                return None;
            }
            let bit = free & free.wrapping_neg();
            let bits = if two { bit * 3 } else { bit };
            match self.chunks.compare_exchange_weak(now, now ^ (bits | bits << 32), SeqCst, SeqCst) {
                Ok(_) => return Some(free.trailing_zeros() as usize),
                Err(other) => now = other,
            }
        }
    }

    /// Takes these whole chunks, or nothing.
    pub(super) fn take(&self, bits: u64) -> bool {
        let take = |now: u64| (now & bits == bits).then_some(now ^ (bits | bits << 32));
        self.chunks.fetch_update(SeqCst, SeqCst, take).is_ok()
    }

    /// Makes held chunks whole, and returns all that are whole then; `None` if one of them is not held.
    #[inline]
    pub(super) fn give(&self, bits: u64) -> Option<u64> {
        let held = bits << 32;
        if self.chunks.load(SeqCst) & held != held {
            return None;
        }
        // Only who holds a chunk gives it back. So this sets and clears exactly these bits.
        let old = self.chunks.fetch_sub(held - bits, SeqCst);
        assert!(old & (held | bits) == held, "a block is given back but not held");
        Some((old | bits) & WHOLE)
    }

    /// Makes a whole chunk a broken one without free frames; false if it was not whole.
    pub(super) fn break_whole(&self, bit: u64) -> bool {
        self.chunks.fetch_and(!bit, SeqCst) & bit != 0
    }

    /// Makes a broken chunk whole whose words are zero, and which no other thread has; false if it was whole.
    pub(super) fn make_whole(&self, bit: u64) -> bool {
        self.chunks.fetch_or(bit, SeqCst) & bit == 0
    }

    /// Makes a held chunk a broken one; false if it is whole.
    pub(super) fn break_held(&self, bit: u64) -> bool {
        let now = self.chunks.load(SeqCst);
        if now & bit << 32 != 0 {
            self.chunks.fetch_and(!(bit << 32), SeqCst);
        }
        now & bit == 0
    }

    pub(super) fn is_whole(&self, bit: u64) -> bool {
        self.chunks.load(SeqCst) & bit != 0
    }

    /// Returns the bits of the broken chunks on offer.
    pub(super) fn some(&self) -> u64 {
        u64::from(self.some.load(SeqCst))
    }

    /// Sets whether a broken chunk is on offer, and returns whether it was.
    pub(super) fn offer(&self, bit: u64, offered: bool) -> bool {
        let bit = u32::try_from(bit).expect("a bit of a group");
        let was = self.some.load(SeqCst) & bit != 0;
        if was == offered {
            return was;
        }
        let old = if offered { self.some.fetch_or(bit, SeqCst) } else { self.some.fetch_and(!bit, SeqCst) };
        old & bit != 0
    }

    /// Changes the count of free frames outside of whole chunks, and returns it as it was and as it is.
    pub(super) fn count(&self, frames: i32) -> (i32, i32) {
        let old = self.free.fetch_add(frames, SeqCst);
        (old, old.wrapping_add(frames))
    }

    /// Returns the free frames by samples, those of whole chunks too.
    pub(super) fn free(&self) -> i64 {
        (i64::from(self.whole().count_ones()) << CHUNK_ORDER) + i64::from(self.free.load(Relaxed))
    }

    /// Whether another CPU than this one allocates here.
    pub(super) fn is_of_other(&self, cpu: u32) -> bool {
        ![0, cpu].contains(&self.owner.load(Relaxed))
    }

    /// Says that a CPU allocates here from now on.
    pub(super) fn own(&self, cpu: u32) {
        if self.owner.load(Relaxed) != cpu {
            self.owner.store(cpu, Relaxed);
        }
    }

    /// Says that a CPU allocates elsewhere from now on.
    pub(super) fn disown(&self, cpu: u32) {
        if self.owner.load(Relaxed) == cpu {
            self.owner.store(0, Relaxed);
        }
    }
}

/// Returns the bits that are set, the lowest first.
pub fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}
