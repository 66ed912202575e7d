//! What a simulated machine needs of its page allocator, and the allocators that have it.
//!
//! **Problem.** The diagnostic's experiments were written for a buddy system, whose free lists have an order and whose
//! free blocks have marks. Allocators of banks have neither. **Idea.** [`TestableAllocator`] is the few operations that
//! the machine needs. [`ByLists`] has them from any allocator with lists; [`ByBank`] from any allocator with pools of
//! banks, by a walk through the banks that are online. **Why this way.** The machine, its programs and its testers are
//! the same for all allocators, so their figures compare.

mod by_bank;
mod by_lists;

use rampart_buddy::{Cpu, End, FramePlace, Request};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, FreeList, Node, Tested};

use crate::frames::FrameTests;

pub use by_bank::ByBank;
pub use by_lists::ByLists;

/// A page allocator whose free frames can be tested ahead of their use.
///
/// Blocks given out, by [`allocate`](Self::allocate), [`claim`](Self::claim), [`take_free`](Self::take_free) or
/// [`cut_stale`](Self::cut_stale), are held until they come back, whole.
pub trait TestableAllocator {
    /// Allocates a block for a program.
    fn allocate(&mut self, request: Request) -> Option<FrameBlock>;

    /// Frees a held block of a program on a CPU. An allocator with lists puts it to this end of its list.
    fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: Tested, end: End);

    /// Gives back a held block past the lists of the CPUs, to this end of its list if there are lists.
    fn put(&mut self, block: FrameBlock, mark: Tested, end: End);

    /// Retires a held frame. The holder of its block gives the block back afterwards.
    fn retire(&mut self, frame: Frame);

    /// Returns where a frame is.
    fn place(&self, frame: Frame) -> FramePlace;

    /// Takes exactly this block for a test, and returns whether it was free.
    fn claim(&mut self, block: FrameBlock) -> bool;

    /// Takes one free frame in place of another, which the allocator chose for the same program.
    fn take_free(&mut self, frame: Frame, chosen: Frame, tests: &FrameTests<'_>) -> FrameTake;

    /// Returns the free block that a frame lies in, if a test may take it.
    fn testable_block(&self, frame: Frame) -> Option<FrameBlock>;

    /// Returns how many free frames of a node testers may take; they leave the rest for programs.
    fn spare(&self, node: Node) -> u64;

    /// Adds free blocks of a list without a good test to `blocks`, those tested longest ago first, until there are
    /// `most`.
    fn find_stale(
        &mut self,
        list: FreeList,
        most: usize,
        blocks: &mut Vec<FrameBlock>,
        tests: &FrameTests<'_>,
    ) -> SearchWork;

    /// Takes up to `most` blocks of a list's order out of larger ones without a good test, as allocation does when a
    /// list is empty. None if there is no more to take.
    fn cut_stale(&mut self, list: FreeList, most: usize, tests: &FrameTests<'_>) -> Vec<FrameBlock>;

    /// Whether blocks of [`cut_stale`](Self::cut_stale) come back frame by frame.
    const CUTS_INTO_FRAMES: bool;

    /// Returns the blocks that allocation took since the last call, by node and order, but for single frames.
    fn drawn(&mut self) -> Vec<DrawnBlocks>;

    /// Returns the memory that has gone offline since the last call, bank by bank. No test of it counts any more.
    fn gone_offline(&mut self) -> Option<FrameRange>;

    /// Returns the memory that programs get frames of next.
    fn of_programs(&self) -> Vec<FrameRange>;

    /// Forgets all tests.
    fn forget(&mut self);

    /// Returns the banks that are offline; `None` for an allocator that knows no banks.
    fn offline_banks(&self) -> Option<u64>;

    /// Checks what the allocator's owner knows of it, for tests: slow and complete.
    ///
    /// # Panics
    /// If an invariant is violated.
    fn check(&self, tests: &FrameTests<'_>);
}

/// What became of a wish for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameTake {
    /// It is taken.
    Taken,
    /// It is free, and can be taken later.
    Later,
    /// It is not free, or not for this program.
    No,
}

/// What a search cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchWork {
    /// Blocks with a good test that the search passed over, each a cache miss.
    pub passed_over: u64,
    /// Frames whose last test was read, one after the other.
    pub looked_at: u64,
}

/// Blocks that allocation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnBlocks {
    /// Their node.
    pub node: Node,
    /// Their order.
    pub order: BlockOrder,
    /// Their number.
    pub blocks: u64,
}
