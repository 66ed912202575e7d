//! The interface of every physical page allocator.

use std::ops::Add;

use rampart_memory::{BlockOrder, Frame, FrameBlock};

use crate::{Allocated, Cpu, End, ListName, Mark, Migratetype, Request, Watermarks, Zone, ZoneIndex};

/// A physical page allocator, with the second interface that the diagnostic needs: to one global list by name
/// [Rahman16, A.1.1].
///
/// Blocks from [`allocate`](Self::allocate), [`take`](Self::take) or [`claim`](Self::claim) are *held*: they are on no
/// list until they come back, whole, by [`free`](Self::free) or [`put`](Self::put). Giving back a block that is not
/// held is a bug of the caller and panics; so is a CPU or a zone that the machine does not have.
pub trait PageAllocator<M: Mark> {
    /// Allocates a block for a program from the front of a list: first of the requested node's zones, the highest kind
    /// first, then of the other nodes'. `None` if no zone can give it without going below its min watermark, or, for an
    /// urgent request, at all.
    fn allocate(&mut self, request: Request) -> Option<Allocated<M>>;

    /// Frees a program's held block to this end of its list: a single frame to the list of `cpu`, a larger block to the
    /// global list. A frame that reaches a global list later, when the CPU's is full, comes to the same end.
    fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: M, end: End);

    /// Takes the block at an end of a global list, below any watermark.
    fn take(&mut self, list: ListName, end: End) -> Option<(FrameBlock, M)> {
        let (block, mark) = self.peek(list, end)?;
        self.claim(block);
        Some((block, mark))
    }

    /// Takes a specific free block of a global list, seen with [`blocks`](Self::blocks) or [`place`](Self::place);
    /// `None` if there is no such block.
    fn claim(&mut self, block: FrameBlock) -> Option<M>;

    /// Gives a held block to an end of its global list, bypassing the lists of the CPUs: this is how a tester returns
    /// blocks. With an expired mark and [`End::Back`] it is page cache recycling [Rahman16, 5.2.3.2].
    ///
    /// The order after merging and the migratetype of the block's surroundings determine the list.
    fn put(&mut self, block: FrameBlock, mark: M, end: End);

    /// Splits a held block into held frames, each to be freed by itself (`split_page` in Linux).
    fn split(&mut self, block: FrameBlock);

    /// The block at an end of a global list; it stays there.
    fn peek(&self, list: ListName, end: End) -> Option<(FrameBlock, M)> {
        self.blocks(list, end).next()
    }

    /// The blocks of a global list with their marks, from this end.
    fn blocks(&self, list: ListName, end: End) -> impl Iterator<Item = (FrameBlock, M)>;

    /// Never allocates this frame again, and returns its place. The rest of a free block around it stays free, at the
    /// back; a held frame stays with its holder until its block comes back, and then only the rest is free.
    fn retire(&mut self, frame: Frame) -> FramePlace;

    /// The place of a frame.
    fn place(&self, frame: Frame) -> FramePlace;

    /// Replaces the mark of each free block, on the lists of the CPUs too.
    fn remark(&mut self, mark: impl FnMut(M) -> M);

    /// The zones of the machine.
    fn zones(&self) -> impl Iterator<Item = (ZoneIndex, Zone)>;

    /// All global lists.
    fn lists(&self) -> impl Iterator<Item = ListName> {
        self.zones().flat_map(|(zone, _)| {
            BlockOrder::all()
                .flat_map(move |order| Migratetype::ALL.map(|migratetype| ListName { zone, order, migratetype }))
        })
    }

    /// Blocks on a global list.
    fn length(&self, list: ListName) -> u64;

    /// Blocks that allocation has taken off a global list so far: for a request, to split one, or for the list of a
    /// CPU. Blocks of [`take`](Self::take) and [`claim`](Self::claim) do not count.
    fn allocated_from(&self, list: ListName) -> u64;

    /// Frames on the global lists of a zone; watermarks apply to this number.
    fn free_frames(&self, zone: ZoneIndex) -> u64;

    /// Frames of a zone on the list of a CPU.
    fn local_frames(&self, zone: ZoneIndex, cpu: Cpu) -> u64;

    /// The watermarks of a zone.
    fn watermarks(&self, zone: ZoneIndex) -> Watermarks;

    /// The counts so far.
    fn statistics(&self) -> AllocatorStatistics;
}

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePlace {
    /// In this free block of a global list.
    Free(FrameBlock),
    /// On the list of a CPU.
    Local,
    /// In a held block.
    Held,
    /// On no list for ever.
    Retired,
    /// In no zone.
    Absent,
}

/// Counts since the allocator was created.
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
    /// Pairs of buddies made one.
    pub merges: u64,
    /// Blocks taken from the lists of another migratetype.
    pub steals: u64,
    /// Pageblocks that changed their migratetype with such a block.
    pub pageblocks_claimed: u64,
    /// Frames retired, those that are still held among them.
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
