//! The interface between the diagnostic and the memory that it tests [Rahman16, 5.2 and A.1].
//!
//! **Problem.** Frames to test come from a simulated allocator, from this machine's free memory, or from a kernel; the
//! code that decides when and how they are tested should not depend on which. **Idea.** A [`FrameSource`] has free
//! lists with counters of their demand; the controller reads the counters, takes blocks, has a [`TestBench`] test them,
//! and gives them back with a [`BlockVerdict`]. **Why this way.** The kernel interface of \[Rahman16\] is these few
//! calls; any source that offers them gets every policy.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::{BlockOrder, Fidelity, Frame, FrameRange, Node, Timestamp};

/// A free list that testing refills: the blocks of one order on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FreeList {
    /// The node of the blocks.
    pub node: Node,
    /// The size of the blocks.
    pub order: BlockOrder,
}

/// The demand on a free list since its source began, in blocks [Rahman16, A.1.3].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameDemand {
    /// Allocated blocks whose test was good.
    pub allocated_tested: u64,
    /// Allocated blocks that had to be tested on demand: the expensive transition.
    pub allocated_untested: u64,
    /// Returned blocks whose test was still good.
    pub returned_fresh: u64,
    /// Returned blocks whose test had expired, or was expired on purpose [Rahman16, 5.2.3.2].
    pub returned_expired: u64,
}

impl FrameDemand {
    /// Allocated blocks.
    #[must_use]
    pub const fn allocated(self) -> u64 {
        self.allocated_tested + self.allocated_untested
    }
}

impl Add for FrameDemand {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            allocated_tested: self.allocated_tested + other.allocated_tested,
            allocated_untested: self.allocated_untested + other.allocated_untested,
            returned_fresh: self.returned_fresh + other.returned_fresh,
            returned_expired: self.returned_expired + other.returned_expired,
        }
    }
}

impl Sub for FrameDemand {
    type Output = Self;

    /// The increase since an earlier reading of the same counters.
    fn sub(self, earlier: Self) -> Self {
        Self {
            allocated_tested: self.allocated_tested - earlier.allocated_tested,
            allocated_untested: self.allocated_untested - earlier.allocated_untested,
            returned_fresh: self.returned_fresh - earlier.returned_fresh,
            returned_expired: self.returned_expired - earlier.returned_expired,
        }
    }
}

/// The configuration of tests until the next decision: *testconfig* [Rahman16, 5.2.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestConfig {
    /// The fidelity.
    pub fidelity: Fidelity,
    /// The number of testers; at least 1, but 0 where testing is left to the moment of allocation.
    pub threads: u32,
}

/// The result of a block's test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockVerdict {
    /// All its frames are good.
    Good,
    /// These frames are bad; the others are good.
    Failed(Vec<Frame>),
    /// The test did not run to its end: nothing new is known.
    NotTested,
}

/// A source of frames to test.
pub trait FrameSource {
    /// A block of frames in the diagnostic's hands: in no free list, and used by nobody.
    type Block;

    /// The free lists, each once.
    fn lists(&self) -> Vec<FreeList>;

    /// The demand on a list so far.
    fn demand(&self, list: FreeList) -> FrameDemand;

    /// Free frames whose test is good at `now`.
    fn tested_free(&self, now: Timestamp) -> u64;

    /// Takes up to `most` blocks of a list whose test is not good at `now`, those tested longest ago first.
    fn take(&mut self, list: FreeList, most: u64, now: Timestamp) -> Vec<Self::Block>;

    /// Enough free frames are tested for now: the source may release frames that it holds for later tests.
    fn rest(&mut self, _now: Timestamp) {}

    /// The node of a block, and its number of frames.
    fn shape(&self, block: &Self::Block) -> (Node, u64);

    /// Whether a block is to be tested before those that wait.
    fn is_urgent(&self, _block: &Self::Block) -> bool {
        false
    }

    /// Gives a block back. Its good frames count as tested at `now`; its bad ones are never handed out again.
    fn give_back(&mut self, block: Self::Block, verdict: BlockVerdict, now: Timestamp);

    /// Keeps age + δ < lifetime for every frame in use until `until`: moves the content of a frame whose test ends by
    /// then to a frame that is good until later, or tests it in place. Returns its work since the last call.
    fn re_place_expiring(&mut self, now: Timestamp, until: Timestamp) -> RePlacementCounts;

    /// Takes blocks with these frames first, until the next call: frames with known errors are tested before the rest
    /// [Rahman16, 6.2].
    fn prefer(&mut self, frames: &[FrameRange]);

    /// Counts every frame as never tested: the clock went back, so no age is known.
    fn forget(&mut self);
}

impl<S: FrameSource + ?Sized> FrameSource for Box<S> {
    type Block = S::Block;

    fn lists(&self) -> Vec<FreeList> {
        (**self).lists()
    }

    fn demand(&self, list: FreeList) -> FrameDemand {
        (**self).demand(list)
    }

    fn tested_free(&self, now: Timestamp) -> u64 {
        (**self).tested_free(now)
    }

    fn take(&mut self, list: FreeList, most: u64, now: Timestamp) -> Vec<Self::Block> {
        (**self).take(list, most, now)
    }

    fn rest(&mut self, now: Timestamp) {
        (**self).rest(now);
    }

    fn shape(&self, block: &Self::Block) -> (Node, u64) {
        (**self).shape(block)
    }

    fn is_urgent(&self, block: &Self::Block) -> bool {
        (**self).is_urgent(block)
    }

    fn give_back(&mut self, block: Self::Block, verdict: BlockVerdict, now: Timestamp) {
        (**self).give_back(block, verdict, now);
    }

    fn re_place_expiring(&mut self, now: Timestamp, until: Timestamp) -> RePlacementCounts {
        (**self).re_place_expiring(now, until)
    }

    fn prefer(&mut self, frames: &[FrameRange]) {
        (**self).prefer(frames);
    }

    fn forget(&mut self) {
        (**self).forget();
    }
}

/// The work for frames in use whose test was about to expire [Rahman16, 4.1.2].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RePlacementCounts {
    /// Moved to a frame that was tested before.
    pub migrated: u64,
    /// Moved to a frame that had to be tested on demand.
    pub migrated_on_demand: u64,
    /// Tested in place, with its content saved and put back.
    pub in_place: u64,
    /// Locked until it is tested: its program cannot access it.
    pub locked: u64,
}

/// Tests blocks.
pub trait TestBench<Block> {
    /// Tests every frame of the block.
    fn test(&mut self, block: &mut Block, fidelity: Fidelity) -> BlockVerdict;
}

impl Add for RePlacementCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            migrated: self.migrated + other.migrated,
            migrated_on_demand: self.migrated_on_demand + other.migrated_on_demand,
            in_place: self.in_place + other.in_place,
            locked: self.locked + other.locked,
        }
    }
}
