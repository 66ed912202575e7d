//! The interfaces of physical page allocators.
//!
//! **Problem.** Programs that need pages want a shared allocator; a diagnostic that tests free memory wants to see and
//! reorder its lists; an allocator without lists can serve only the former. **Idea.** [`PageAllocator`] is what every
//! allocator does, for any number of threads. [`FreeLists`] is the view of the lists that buddy systems have, for one
//! owner. **Why this way.** [`Locked`](crate::Locked) makes the first of the second, so each allocator is written once.

use core::ops::Add;

use rampart_memory::{BlockOrder, Frame, FrameBlock};

use crate::{Allocated, Cpu, End, ListName, Mark, Migratetype, Request, Watermarks, Zone, ZoneIndex};

/// A physical page allocator, for threads that share it.
///
/// Blocks given out, by [`allocate`](Self::allocate) or [`claim`](Self::claim), are *held* until they come back, whole,
/// by [`free`](Self::free). Giving back a block that is not held is a bug of the caller and panics, and so is naming a
/// CPU or a zone that the machine does not have. As in a kernel, a CPU is used by one thread at a time.
pub trait PageAllocator: Sync {
    /// Allocates a block, first in the zones of the requested node, the highest kind first, then in those of the other
    /// nodes. `None` if no zone can give it without going below its min watermark, or at all if the request is urgent.
    fn allocate(&self, request: Request) -> Option<FrameBlock>;

    /// Frees a held block on a CPU.
    fn free(&self, block: FrameBlock, cpu: Cpu);

    /// Takes exactly these frames, regardless of watermarks, if all are free; else takes none and returns false. A
    /// frame on the list of a CPU counts as free.
    fn claim(&self, block: FrameBlock) -> bool;

    /// Retires a frame, which is never given out again, and returns where it was. A held frame stays with its holder
    /// until its block comes back; then only the rest becomes free.
    fn retire(&self, frame: Frame) -> FramePlace;

    /// Returns where a frame is.
    fn place(&self, frame: Frame) -> FramePlace;

    /// Returns a zone as given to the constructor.
    fn zone(&self, zone: ZoneIndex) -> Option<Zone>;

    /// Returns the number of free frames of a zone, which watermarks apply to.
    fn free_frames(&self, zone: ZoneIndex) -> u64;

    /// Returns the watermarks of a zone.
    fn watermarks(&self, zone: ZoneIndex) -> Watermarks;

    /// Returns the counts so far.
    fn statistics(&self) -> AllocatorStatistics;
}

/// The lists of an allocator of one owner: the access to single global lists that the diagnostic needs
/// [Rahman16, A.1.1].
///
/// Blocks given out, by [`allocate`](Self::allocate), [`take`](Self::take) or [`claim`](Self::claim), are *held*: they
/// are on no list until they come back, whole, by [`free`](Self::free) or [`put`](Self::put). Giving back a block that
/// is not held is a bug of the caller and panics, and so is naming a CPU or a zone that the machine does not have.
pub trait FreeLists {
    /// What is known of all frames of a free block.
    type Mark: Mark;

    /// Allocates a block for a program from the front of a list, first in the zones of the requested node, the highest
    /// kind first, then in those of the other nodes. `None` if no zone can give it without going below its min
    /// watermark, or at all if the request is urgent.
    fn allocate(&mut self, request: Request) -> Option<Allocated<Self::Mark>>;

    /// Frees a held block of a program to this end of its list: a single frame to the list of `cpu`, a larger block to
    /// the global list. A frame that moves to a global list later, when the CPU's is full, goes to the same end.
    fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: Self::Mark, end: End);

    /// Takes the block at an end of a global list, regardless of watermarks.
    fn take(&mut self, list: ListName, end: End) -> Option<(FrameBlock, Self::Mark)> {
        let (block, mark) = self.peek(list, end)?;
        self.claim(block);
        Some((block, mark))
    }

    /// Takes exactly this free block, found with [`blocks`](Self::blocks) or [`place`](Self::place), off its global
    /// list; `None` if there is no such block.
    fn claim(&mut self, block: FrameBlock) -> Option<Self::Mark>;

    /// Takes exactly these frames out of the free block that they lie in, whose rest stays free, at the front; `None`
    /// if they do not lie in one free block of a global list.
    fn carve(&mut self, block: FrameBlock) -> Option<Self::Mark>;

    /// Gives all frames on the lists of the CPUs to the global lists, and returns their number.
    fn drain(&mut self) -> u64;

    /// Gives a held block to an end of its global list, past the lists of the CPUs: testers return their blocks this
    /// way. With an expired mark and [`End::Back`] it is page cache recycling [Rahman16, 5.2.3.2].
    ///
    /// The order after merging and the migratetype of the block's pageblock determine the list.
    fn put(&mut self, block: FrameBlock, mark: Self::Mark, end: End);

    /// Splits a held block into held frames, each of which is freed by itself (`split_page` in Linux).
    fn split(&mut self, block: FrameBlock);

    /// Returns the block at an end of a global list, without taking it.
    fn peek(&self, list: ListName, end: End) -> Option<(FrameBlock, Self::Mark)> {
        self.blocks(list, end).next()
    }

    /// Returns the blocks of a global list with their marks, from this end on.
    fn blocks(&self, list: ListName, end: End) -> impl Iterator<Item = (FrameBlock, Self::Mark)>;

    /// Retires a frame, which is never given out again, and returns where it was. The rest of its free block stays
    /// free, at the back. A held frame stays with its holder until its block comes back; then only the rest becomes
    /// free.
    fn retire(&mut self, frame: Frame) -> FramePlace;

    /// Returns where a frame is.
    fn place(&self, frame: Frame) -> FramePlace;

    /// Replaces the mark of each free block, also on the lists of the CPUs.
    fn remark(&mut self, mark: impl FnMut(Self::Mark) -> Self::Mark);

    /// Returns the zones, as given to the constructor.
    fn zones(&self) -> impl Iterator<Item = (ZoneIndex, Zone)>;

    /// Returns all global lists.
    fn lists(&self) -> impl Iterator<Item = ListName> {
        self.zones().flat_map(|(zone, _)| {
            BlockOrder::all()
                .flat_map(move |order| Migratetype::ALL.map(|migratetype| ListName { zone, order, migratetype }))
        })
    }

    /// Returns the number of blocks on a global list.
    fn length(&self, list: ListName) -> u64;

    /// Returns the number of blocks that allocation has taken off a global list so far: for a request, to split for
    /// one, or for the list of a CPU. Blocks taken by [`take`](Self::take) and [`claim`](Self::claim) do not count.
    fn allocated_from(&self, list: ListName) -> u64;

    /// Returns the number of frames on the global lists of a zone, which watermarks apply to.
    fn free_frames(&self, zone: ZoneIndex) -> u64;

    /// Returns the number of frames of a zone on the list of a CPU.
    fn local_frames(&self, zone: ZoneIndex, cpu: Cpu) -> u64;

    /// Returns the watermarks of a zone.
    fn watermarks(&self, zone: ZoneIndex) -> Watermarks;

    /// Returns the counts so far.
    fn statistics(&self) -> AllocatorStatistics;
}

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlace {
    /// In this free block of a global list.
    Free(FrameBlock),
    /// On the list of a CPU.
    Local,
    /// In a block that was given out.
    Held,
    /// Retired: on no list, and never given out again.
    Retired,
    /// In no zone.
    Absent,
}

/// Counts of an allocator's operations since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorStatistics {
    /// Requests that got a block.
    pub allocated: u64,
    /// Requests that got none.
    pub refused: u64,
    /// Blocks that programs gave back.
    pub freed: u64,
    /// Times that the list of a CPU was filled from the global ones.
    pub refills: u64,
    /// Times that the list of a CPU was emptied, in part or whole, to the global ones.
    pub drains: u64,
    /// Blocks cut in two.
    pub splits: u64,
    /// Pairs of buddies merged.
    pub merges: u64,
    /// Blocks taken from the lists of another migratetype.
    pub steals: u64,
    /// Pageblocks that changed their migratetype with such a block.
    pub pageblocks_claimed: u64,
    /// Frames retired, including those that are still held.
    pub retired: u64,
}

impl Add for AllocatorStatistics {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            allocated: self.allocated + other.allocated,
            refused: self.refused + other.refused,
            freed: self.freed + other.freed,
            refills: self.refills + other.refills,
            drains: self.drains + other.drains,
            splits: self.splits + other.splits,
            merges: self.merges + other.merges,
            steals: self.steals + other.steals,
            pageblocks_claimed: self.pageblocks_claimed + other.pageblocks_claimed,
            retired: self.retired + other.retired,
        }
    }
}
