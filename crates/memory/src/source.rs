//! What stands between the diagnostic and the memory that it tests [Rahman16, 5.2 and A.1].
//!
//! **Problem.** Frames to test come from a simulated allocator, from this machine's free memory, from the heap of a
//! guarded process; what decides when and how they are tested should not know. **Idea.** A [`FrameSource`] has free
//! lists with counters of what was asked of them; the controller reads the counters, takes blocks, has a [`TestBench`]
//! test them, and gives them back with a [`Verdict`]. **Why this way.** Rahman's kernel interface is these few calls;
//! who can make them gets every policy.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::{Fidelity, Frame, FrameRange, Node, Order, Timestamp};

/// A free list that testing refills: the blocks of one order on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FreeList {
    /// Where the blocks lie.
    pub node: Node,
    /// How large they are.
    pub order: Order,
}

/// What was asked of a free list since its source began, in blocks [Rahman16, A.1.3].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Blocks allocated whose test was good.
    pub allocated_tested: u64,
    /// Blocks allocated that had to be tested on demand: the transition that costs.
    pub allocated_untested: u64,
    /// Blocks returned while their test was still good.
    pub returned_fresh: u64,
    /// Blocks returned whose test had expired, or was expired on purpose [Rahman16, 5.2.3.2].
    pub returned_expired: u64,
}

impl Demand {
    /// Blocks allocated.
    #[must_use]
    pub const fn allocated(self) -> u64 {
        self.allocated_tested + self.allocated_untested
    }
}

impl Add for Demand {
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

impl Sub for Demand {
    type Output = Self;

    /// What came since an earlier reading of the same counters.
    fn sub(self, earlier: Self) -> Self {
        Self {
            allocated_tested: self.allocated_tested - earlier.allocated_tested,
            allocated_untested: self.allocated_untested - earlier.allocated_untested,
            returned_fresh: self.returned_fresh - earlier.returned_fresh,
            returned_expired: self.returned_expired - earlier.returned_expired,
        }
    }
}

/// How to test until the next decision: Rahman's *testconfig* [Rahman16, 5.2.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestConfig {
    /// How thoroughly.
    pub fidelity: Fidelity,
    /// By how many testers; at least 1, but 0 where testing is left to the moment of allocation.
    pub threads: u32,
}

/// What a test of a block found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All its frames are good.
    Good,
    /// These of its frames are bad; the others are good.
    Failed(Vec<Frame>),
    /// The test was not run to its end: nothing is known that was not known before.
    NotTested,
}

/// Where the frames come from.
pub trait FrameSource {
    /// A block of frames in the diagnostic's hands: out of every free list, and used by nobody.
    type Block;

    /// The free lists, each once.
    fn lists(&self) -> Vec<FreeList>;

    /// What was asked of a list so far.
    fn demand(&self, list: FreeList) -> Demand;

    /// Free frames whose test is good at `now`.
    fn tested_free(&self, now: Timestamp) -> u64;

    /// Takes up to `most` blocks of a list whose test is not good at `now`, those tested longest ago first.
    fn take(&mut self, list: FreeList, most: u64, now: Timestamp) -> Vec<Self::Block>;

    /// Enough free frames are tested for now: what the source holds on to for later tests may go.
    fn rest(&mut self, _now: Timestamp) {}

    /// Where a block lies, and how many frames it has.
    fn shape(&self, block: &Self::Block) -> (Node, u64);

    /// Gives a block back. Its good frames count as tested at `now`; its bad ones are never handed out again.
    fn give_back(&mut self, block: Self::Block, verdict: Verdict, now: Timestamp);

    /// Does what keeps age + δ < lifetime for every frame in use until `until`: moves what is in a frame whose test
    /// ends by then to a frame that is fresh until later, or tests it in place. Says what it did since it was last
    /// called.
    fn renew(&mut self, now: Timestamp, until: Timestamp) -> Renewed;

    /// Takes blocks with these frames first, until told otherwise: what is known to err is tested before the rest
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

    fn demand(&self, list: FreeList) -> Demand {
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

    fn give_back(&mut self, block: Self::Block, verdict: Verdict, now: Timestamp) {
        (**self).give_back(block, verdict, now);
    }

    fn renew(&mut self, now: Timestamp, until: Timestamp) -> Renewed {
        (**self).renew(now, until)
    }

    fn prefer(&mut self, frames: &[FrameRange]) {
        (**self).prefer(frames);
    }

    fn forget(&mut self) {
        (**self).forget();
    }
}

/// What was done for the frames in use whose test was about to expire [Rahman16, 4.1.2].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Moved to a frame that was tested ahead.
    pub migrated: u64,
    /// Moved to a frame that had to be tested on demand.
    pub migrated_on_demand: u64,
    /// Tested in place, with its content saved and put back.
    pub in_place: u64,
    /// Taken from its program until it is tested: nothing leads there.
    pub locked: u64,
}

/// Something that tests a block.
pub trait TestBench<Block> {
    /// Marches over every frame of the block.
    fn test(&mut self, block: &mut Block, fidelity: Fidelity) -> Verdict;
}

impl Add for Renewed {
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
