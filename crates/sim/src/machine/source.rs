//! The machine as a source of frames: the interface of [Rahman16, A.1].

use rampart_buddy::End;
use rampart_memory::{
    BlockOrder, BlockVerdict, Frame, FrameBlock, FrameDemand, FrameRange, FrameSource, FreeList, Node,
    RePlacementCounts, Tested, Timestamp,
};

use super::SimulatedMachine;
use crate::allocators::TestableAllocator;
use crate::frames::{FrameTests, Holder};

/// A block that the diagnostic holds. It can only be given back.
#[derive(Debug)]
pub struct Taken {
    block: FrameBlock,
    held: Held,
}

/// How the allocator gave out a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// As one block.
    Whole,
    /// Cut off a larger one, frame by frame.
    Singly,
}

impl Taken {
    /// Returns its frames.
    #[must_use]
    pub const fn block(&self) -> FrameBlock {
        self.block
    }
}

impl<A: TestableAllocator> SimulatedMachine<A> {
    fn put_back(&mut self, frame: Frame, end: End) {
        self.allocator.put(FrameBlock::of(frame), self.frames.get(frame).tested, end);
    }

    /// Records that the diagnostic holds a block from now on.
    fn hold_for_test(&mut self, block: FrameBlock, held: Held) -> Taken {
        self.in_testing += block.count();
        block.frames().for_each(|frame| self.frames.get_mut(frame).holder = Holder::Tester);
        Taken { block, held }
    }

    /// Returns the blocks of a list that have preferred frames.
    fn preferred_blocks(&self, list: FreeList, most: usize) -> Vec<FrameBlock> {
        let mut blocks: Vec<FrameBlock> = Vec::new();
        for range in &self.preferred {
            let frames = (0..range.count()).filter_map(|offset| range.start().checked_add(offset));
            for frame in frames {
                let Some(block) = self.allocator.testable_block(frame) else { continue };
                let is_new = block.order() == list.order && blocks.last() != Some(&block);
                if is_new && self.description.node_of_frame(frame) == list.node && blocks.len() < most {
                    blocks.push(block);
                }
            }
        }
        blocks
    }
}

impl<A: TestableAllocator> FrameSource for SimulatedMachine<A> {
    type Block = Taken;

    fn lists(&self) -> Vec<FreeList> {
        let mut nodes: Vec<Node> = self.description.zones.iter().map(|zone| zone.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into_iter().flat_map(|node| BlockOrder::all().map(move |order| FreeList { node, order })).collect()
    }

    fn demand(&self, list: FreeList) -> FrameDemand {
        self.demand[self.description.node_index(list.node)][list.order.index()]
    }

    fn tested_free(&self, now: Timestamp) -> u64 {
        let Some(testing) = &self.testing else { return 0 };
        let entries = self.allocator.of_programs().into_iter().flat_map(|range| self.frames.of_range(range));
        let good =
            entries.filter(|entry| entry.holder == Holder::Nobody && testing.lifetime.is_fresh(entry.tested, now));
        good.count() as u64
    }

    fn take(&mut self, list: FreeList, most: u64, now: Timestamp) -> Vec<Taken> {
        if most == 0 {
            return Vec::new();
        }
        let most =
            usize::try_from(most.min(self.allocator.spare(list.node) / list.order.frames())).unwrap_or(usize::MAX);
        if most == 0 {
            return Vec::new();
        }
        let mut blocks = self.preferred_blocks(list, most);
        let lifetime = self.testing.map(|testing| testing.lifetime);
        let Self { allocator, frames, .. } = self;
        let tests = FrameTests::new(frames, lifetime, now);
        let work = allocator.find_stale(list, most, &mut blocks, &tests);
        blocks.retain(|&block| allocator.claim(block));
        let mut cut = Vec::new();
        while blocks.len() + cut.len() < most {
            let more = allocator.cut_stale(list, most - blocks.len() - cut.len(), &tests);
            if more.is_empty() {
                break;
            }
            cut.extend(more);
        }
        self.passed_over += work.passed_over;
        self.looked_at += work.looked_at;
        let held = if A::CUTS_INTO_FRAMES { Held::Singly } else { Held::Whole };
        let blocks =
            blocks.into_iter().map(|block| (block, Held::Whole)).chain(cut.into_iter().map(|block| (block, held)));
        blocks.map(|(block, held)| self.hold_for_test(block, held)).collect()
    }

    fn shape(&self, block: &Taken) -> (Node, u64) {
        (self.description.node_of_frame(block.block.first()), block.block.count())
    }

    fn give_back(&mut self, block: Taken, verdict: BlockVerdict, now: Timestamp) {
        let Taken { block, held } = block;
        self.in_testing -= block.count();
        let tested = match &verdict {
            BlockVerdict::Good | BlockVerdict::Failed(_) => Some(Tested::at(now)),
            BlockVerdict::NotTested => None,
        };
        for frame in block.frames() {
            let entry = self.frames.get_mut(frame);
            entry.holder = Holder::Nobody;
            entry.tested = tested.unwrap_or(entry.tested);
        }
        if let BlockVerdict::Failed(bad) = &verdict {
            bad.iter().for_each(|&frame| self.fail(frame));
        }
        let end = if tested.is_some() { End::Front } else { End::Back };
        match held {
            Held::Whole => self.allocator.put(block, tested.unwrap_or(Tested::NEVER), end),
            Held::Singly => block.frames().for_each(|frame| self.put_back(frame, end)),
        }
        self.forget_offline();
        if tested.is_some() {
            block.frames().for_each(|frame| self.record_fresh(frame));
        }
    }

    fn re_place_expiring(&mut self, now: Timestamp, until: Timestamp) -> RePlacementCounts {
        debug_assert_eq!(now, self.now, "the machine's clock is the one that counts");
        self.re_place_before(until)
    }

    fn prefer(&mut self, frames: &[FrameRange]) {
        self.preferred = frames.to_vec();
    }

    fn forget(&mut self) {
        self.forget_tests();
    }
}
