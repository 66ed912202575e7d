//! What every physical page allocator does.

use std::ops::Add;

use rampart_memory::{Frame, FrameBlock, Order};

use crate::{Allocated, Cpu, End, ListName, Mark, Migratetype, Request, Watermarks, Zone, ZoneIndex};

/// A physical page allocator, and the second door that the diagnostic needs: to one global list by name
/// [Rahman16, A.1.1].
///
/// Blocks given out, by [`allocate`](Self::allocate), [`take`](Self::take) or [`claim`](Self::claim), are *held*: they
/// are on no list until they come back, whole, by [`free`](Self::free) or [`put`](Self::put). To give back a block that
/// is not held is a bug of the caller and panics, and so is a CPU or a zone that the machine does not have.
pub trait PageAllocator<M: Mark> {
    /// A block for a program: from the front of a list, first of the wished node's zones, the highest kind first, then
    /// of the other nodes'. `None` if no zone can give it without going below its min watermark, or at all if the
    /// request is urgent.
    fn allocate(&mut self, request: Request) -> Option<Allocated<M>>;

    /// A program gives a held block back, to this end of its list: a single frame to the list of `cpu`, a larger block
    /// to the global list. A frame that comes to a global list later, when the CPU's is full, comes to the same end.
    fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: M, end: End);

    /// Takes the block at an end of a global list, below any watermark.
    fn take(&mut self, list: ListName, end: End) -> Option<(FrameBlock, M)> {
        let (block, mark) = self.peek(list, end)?;
        self.claim(block);
        Some((block, mark))
    }

    /// Takes a block that is free on a global list just as it is, seen with [`blocks`](Self::blocks) or
    /// [`place`](Self::place); `None` if there is no such block.
    fn claim(&mut self, block: FrameBlock) -> Option<M>;

    /// Gives a held block to an end of its global list, past the lists of the CPUs: how a tester returns what it took.
    /// With an expired mark and [`End::Back`] it is page cache recycling [Rahman16, 5.2.3.2].
    ///
    /// Which list that is follows from the order after merging and from the migratetype that the block's surroundings
    /// have.
    fn put(&mut self, block: FrameBlock, mark: M, end: End);

    /// Makes of a held block as many held frames, each to be freed by itself (`split_page` in Linux).
    fn split(&mut self, block: FrameBlock);

    /// The block at an end of a global list; it stays there.
    fn peek(&self, list: ListName, end: End) -> Option<(FrameBlock, M)> {
        self.blocks(list, end).next()
    }

    /// The blocks of a global list with their marks, as they come from this end.
    fn blocks(&self, list: ListName, end: End) -> impl Iterator<Item = (FrameBlock, M)>;

    /// Never gives this frame out again, and says where it was. The rest of a free block that it lay in stays free, at
    /// the back; a held frame stays its holder's until its block comes back, and then only the rest is free.
    fn retire(&mut self, frame: Frame) -> Place;

    /// Where a frame is.
    fn place(&self, frame: Frame) -> Place;

    /// Replaces the mark of each free block, also on the lists of the CPUs.
    fn remark(&mut self, mark: impl FnMut(M) -> M);

    /// The zones, as the allocator was made with them.
    fn zones(&self) -> impl Iterator<Item = (ZoneIndex, Zone)>;

    /// All global lists.
    fn lists(&self) -> impl Iterator<Item = ListName> {
        self.zones().flat_map(|(zone, _)| {
            Order::all()
                .flat_map(move |order| Migratetype::ALL.map(|migratetype| ListName { zone, order, migratetype }))
        })
    }

    /// Blocks on a global list.
    fn length(&self, list: ListName) -> u64;

    /// Blocks that allocation has taken off a global list so far: for a request, to be split for one, or for the list
    /// of a CPU. What [`take`](Self::take) and [`claim`](Self::claim) took does not count.
    fn allocated_from(&self, list: ListName) -> u64;

    /// Frames on the global lists of a zone; this is what watermarks are about.
    fn free_frames(&self, zone: ZoneIndex) -> u64;

    /// Frames of a zone on the list of a CPU.
    fn local_frames(&self, zone: ZoneIndex, cpu: Cpu) -> u64;

    /// What a zone keeps back.
    fn watermarks(&self, zone: ZoneIndex) -> Watermarks;

    /// What was done so far.
    fn statistics(&self) -> Statistics;
}

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this free block of a global list.
    Free(FrameBlock),
    /// On the list of a CPU.
    Local,
    /// In a block that was given out.
    Held,
    /// On no list for ever.
    Retired,
    /// In no zone.
    Absent,
}

/// What an allocator did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
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

impl Add for Statistics {
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
