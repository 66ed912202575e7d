//! Banks: parts of memory that can go offline or into a low-power state by themselves.
//!
//! **Problem.** One page of the kernel keeps a whole bank online, for it cannot move. **Idea.** Each bank belongs to a
//! *pool*, so that pages of the kernel share few banks [Panwar15, 4.2]. **Why this way.** A bank changes its pool as a
//! whole, so who holds what in it follows from its pool.

use rampart_memory::{BlockOrder, Frame, FrameRange};

use crate::ZoneIndex;

/// The frames of a bank: a power of two, and at least the largest block of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankSize(u64);

impl BankSize {
    /// Returns the size of banks of so many frames; `None` if it is no power of two or less than 1,024 (4 MiB).
    #[must_use]
    pub const fn of_frames(frames: u64) -> Option<Self> {
        if frames.is_power_of_two() && frames >= BlockOrder::MAX.frames() { Some(Self(frames)) } else { None }
    }

    /// Returns its frames.
    #[must_use]
    pub const fn frames(self) -> u64 {
        self.0
    }

    /// Returns the number of the bank that a frame lies in, from address 0 on.
    #[must_use]
    pub const fn bank_of(self, frame: Frame) -> u64 {
        // A shift takes less time than a division, and each allocation and free asks for its bank.
        frame.number() >> self.0.trailing_zeros()
    }
}

/// The pool of a bank [Panwar15, 4.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BankPool {
    /// `POOL_KERNEL`: unmovable and reclaimable pages, and movable ones if no other pool has room.
    Kernel,
    /// `POOL_USER`: movable pages only.
    User,
    /// `POOL_OFFLINE`: all of it is free, and it could be offline.
    Offline,
}

/// The part of a bank that lies in one zone; for almost every bank that is all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankPart {
    /// Its zone.
    pub zone: ZoneIndex,
    /// Its frames.
    pub frames: FrameRange,
    /// Its free frames.
    pub free: u64,
    /// Its pool.
    pub pool: BankPool,
    /// Whether it is less than a bank, because a zone begins or ends within. Then it is in the kernel's pool for good
    /// and is never emptied [Panwar15, 4.1.2].
    pub is_partial: bool,
}

/// An allocator with a pool for each bank.
pub trait BankPools {
    /// Returns the number of its parts of banks: zone by zone, in ascending order of their frames.
    fn parts(&self) -> usize;

    /// Returns the state of a part.
    fn part(&self, part: usize) -> BankPart;

    /// Returns the pool of a part, as [`BankPools::part`] does; an allocator need not count its frames for that.
    fn pool(&self, part: usize) -> BankPool {
        self.part(part).pool
    }

    /// Stops allocation from a part of the user pool, so that its pages can move away and nothing takes their place
    /// [Panwar15, 4.3]. Frees still work; when the last page is freed, the part joins the offline pool. Returns whether
    /// the part could be isolated: parts of other pools cannot.
    fn isolate(&self, part: usize) -> bool;

    /// Ends the isolation of a part that still holds pages.
    fn rejoin(&self, part: usize);

    /// Makes the bank with most free frames of each pool the first that requests look at: the work of the thread that
    /// `ListBanks` has besides, at intervals of its owner [Panwar15, 4.1.2]. Other allocators do nothing.
    fn put_best_first(&self) {}
}
