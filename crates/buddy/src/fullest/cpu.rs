//! What a CPU keeps for itself of a zone.

use rampart_memory::BlockOrder;

use super::part::{BUCKETS, CHUNK_FRAMES, CHUNK_ORDER};
use super::sync::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use super::word::WORD_FRAMES;
use crate::{BankPool, Migratetype};

/// Words of a chunk.
pub const CHUNK_WORDS: usize = CHUNK_FRAMES / WORD_FRAMES;

/// Who gets the page, which decides in which banks it may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageUser {
    /// The kernel: the page cannot move.
    Kernel,
    /// A program: it can.
    Program,
}

impl PageUser {
    pub const fn of(migratetype: Migratetype) -> Self {
        match migratetype {
            Migratetype::Movable => Self::Program,
            Migratetype::Unmovable | Migratetype::Reclaimable => Self::Kernel,
        }
    }

    /// Returns the pool that is made for it.
    pub const fn pool(self) -> BankPool {
        match self {
            Self::Kernel => BankPool::Kernel,
            Self::Program => BankPool::User,
        }
    }
}

/// The sizes of blocks for which a CPU stays in a part. The few blocks of sizes between always come from the fullest
/// part that has one: if they opened an empty part, single frames would follow them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearSize {
    /// A frame.
    Frame,
    /// A chunk or two.
    Chunk,
}

impl NearSize {
    #[inline]
    pub const fn of(order: BlockOrder) -> Option<Self> {
        match order.number() {
            0 => Some(Self::Frame),
            CHUNK_ORDER.. => Some(Self::Chunk),
            _ => None,
        }
    }
}

/// A word from which a CPU allocates, and thus a chunk that it has for itself; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation(u64);

impl Reservation {
    pub const NONE: Self = Self(0);

    pub fn of(word: usize) -> Self {
        Self(word as u64 + 1)
    }

    #[inline]
    pub fn word(self) -> Option<usize> {
        self.0.checked_sub(1).map(|word| usize::try_from(word).expect("it was an index"))
    }

    pub fn chunk(self) -> Option<usize> {
        self.word().map(|word| word / CHUNK_WORDS)
    }
}

/// What one CPU keeps of one zone. No other CPU uses its cache lines; all that the usual case needs is in the first.
///
/// Only the thread on that CPU changes the counts, so they take no atomic operation, only loads and stores.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct CpuState {
    reserved: [AtomicU64; 2],
    /// The group of each user's last chunk, plus one, and how empty that unit was then, in the lowest byte.
    near_group: [AtomicU64; 2],
    /// Free frames not yet added to the zone's count.
    free: AtomicI64,
    allocated: AtomicU64,
    freed: AtomicU64,
    /// Its number, plus one: set once.
    number: AtomicU32,
    /// The group of the last chunk that was freed here, plus one; 0 is none.
    freed_group: AtomicU32,
    /// The unit of each user's last frame, in the same way.
    near_unit: [AtomicU64; 2],
    refused: AtomicU64,
}

impl CpuState {
    /// Forgets everything, for the CPU of this number.
    pub(super) fn begin(&self, number: usize) {
        self.number.store(u32::try_from(number + 1).expect("few CPUs"), Relaxed);
        let words = [&self.reserved, &self.near_group, &self.near_unit];
        words.into_iter().flatten().for_each(|word| word.store(0, Relaxed));
        self.free.store(0, Relaxed);
        self.freed_group.store(0, Relaxed);
        [&self.allocated, &self.freed, &self.refused].iter().for_each(|count| count.store(0, Relaxed));
    }

    #[inline]
    const fn near_of(&self, user: PageUser, size: NearSize) -> &AtomicU64 {
        match size {
            NearSize::Frame => &self.near_unit[user as usize],
            NearSize::Chunk => &self.near_group[user as usize],
        }
    }

    #[inline]
    pub(super) fn reservation(&self, user: PageUser) -> Reservation {
        Reservation(self.reserved[user as usize].load(SeqCst))
    }

    /// Returns its number, plus one.
    pub(super) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Returns where a user's last block came from, and the bucket of the unit then: for a frame the unit, for a chunk
    /// the group.
    #[inline]
    pub(super) fn near(&self, user: PageUser, size: NearSize) -> Option<(usize, u32)> {
        let near = self.near_of(user, size).load(Relaxed);
        let place = (near >> u8::BITS).checked_sub(1)?;
        Some((usize::try_from(place).expect("it was an index"), u32::from(near.to_le_bytes()[0])))
    }

    pub(super) fn set_near(&self, user: PageUser, size: NearSize, place: usize, bucket: u32) {
        let bucket = u64::from(bucket.min(BUCKETS - 1));
        self.near_of(user, size).store((place as u64 + 1) << u8::BITS | bucket, Relaxed);
    }

    /// Returns the group of the last chunk that was freed here.
    #[inline]
    pub(super) fn freed_group(&self) -> Option<usize> {
        self.freed_group.load(Relaxed).checked_sub(1).map(|group| group as usize)
    }

    pub(super) fn forget_freed_group(&self) {
        self.freed_group.store(0, Relaxed);
    }

    /// Says in which group a chunk was freed here.
    #[inline]
    pub(super) fn set_freed_group(&self, group: usize) {
        self.freed_group.store(u32::try_from(group + 1).expect("few groups"), Relaxed);
    }

    /// Replaces a reservation; false if another thread has ended it.
    pub(super) fn reserve(&self, user: PageUser, old: Reservation, new: Reservation) -> bool {
        self.reserved[user as usize].compare_exchange(old.0, new.0, SeqCst, SeqCst).is_ok()
    }

    pub(super) fn has_reserved(&self, chunk: usize) -> bool {
        [PageUser::Kernel, PageUser::Program].iter().any(|&user| self.reservation(user).chunk() == Some(chunk))
    }

    /// Counts frames that became free or were taken; returns what the zone's count is to change by, if this CPU's count
    /// differs by so many.
    #[inline]
    pub(super) fn count_free(&self, change: i64, most: i64) -> Option<i64> {
        let free = self.free.load(Relaxed) + change;
        let fold = free.abs() >= most;
        self.free.store(if fold { 0 } else { free }, Relaxed);
        fold.then_some(free)
    }

    pub(super) fn uncounted(&self) -> i64 {
        self.free.load(Relaxed)
    }

    #[inline]
    pub(super) fn count_allocated(&self) {
        self.allocated.store(self.allocated.load(Relaxed) + 1, Relaxed);
    }

    /// Counts a frame that was freed. Returns whether this CPU's count differs by so many, so that
    /// [`CpuState::count_free`] is due.
    #[inline]
    pub(super) fn count_freed_frame(&self, most: i64) -> bool {
        let free = self.free.load(Relaxed) + 1;
        self.free.store(free, Relaxed);
        self.count_freed();
        free >= most
    }

    #[inline]
    pub(super) fn count_freed(&self) {
        self.freed.store(self.freed.load(Relaxed) + 1, Relaxed);
    }

    pub(super) fn count_refused(&self) {
        self.refused.store(self.refused.load(Relaxed) + 1, Relaxed);
    }

    /// Returns the blocks allocated and freed, and the requests refused.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.allocated.load(Relaxed), self.freed.load(Relaxed), self.refused.load(Relaxed))
    }
}
