//! The machine as a source of frames: the interface of [Rahman16, A.1].

use rampart_buddy::{End, FramePlace, FreeLists, ListName, Migratetype, ZoneIndex};
use rampart_memory::{
    BlockOrder, BlockVerdict, Frame, FrameBlock, FrameDemand, FrameRange, FrameSource, FreeList, Node,
    RePlacementCounts, Tested, Timestamp,
};

use super::frames::{FrameEntry, Holder};
use super::{Description, SimulatedMachine};

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

/// Returns the lists of each node and order: those of its zones and of all migratetypes.
pub(super) fn names(description: &Description) -> Vec<Vec<Vec<ListName>>> {
    let of = |node: usize, order: BlockOrder| {
        let zones = description.zones.iter().enumerate();
        let zones = zones.filter(|(_, zone)| description.node_index(zone.node) == node).map(|(at, _)| ZoneIndex(at));
        zones.flat_map(|zone| Migratetype::ALL.map(|migratetype| ListName { zone, order, migratetype })).collect()
    };
    (0..description.nodes()).map(|node| BlockOrder::all().map(|order| of(node, order)).collect()).collect()
}

impl SimulatedMachine {
    pub(super) fn lists_of(&self, list: FreeList) -> &[ListName] {
        &self.names[self.description.node_index(list.node)][list.order.index()]
    }

    /// Whether every frame of a free block has a good test.
    pub(super) fn is_fresh(&self, block: FrameBlock, mark: Tested, now: Timestamp) -> bool {
        let Some(testing) = &self.testing else { return false };
        // The mark is that of the oldest frame, or older: a block that was split off a larger one keeps its mark.
        let fresh = |tested| testing.lifetime.is_fresh(tested, now);
        fresh(mark) || block.frames().all(|frame| fresh(self.frames.get(frame).tested))
    }

    /// Splits a larger block without a good test into parts of the requested order, as allocation does when a list is
    /// empty.
    fn split_larger(&mut self, list: FreeList, most: usize, now: Timestamp) -> Vec<Taken> {
        let larger = BlockOrder::all().filter(|&order| order > list.order);
        let names = larger.flat_map(|order| self.lists_of(FreeList { order, ..list }));
        let backs = names.filter_map(|&name| self.allocator.peek(name, End::Back));
        let stale = backs.filter(|&(block, mark)| !self.is_fresh(block, mark, now)).map(|(block, _)| block).next();
        let Some(block) = stale else { return Vec::new() };
        self.allocator.claim(block);
        self.allocator.split(block);
        let mut taken = Vec::new();
        let parts = (0..block.count()).step_by(usize::try_from(list.order.frames()).expect("at most 1,024"));
        for first in parts.filter_map(|offset| block.first().checked_add(offset)) {
            let part = FrameBlock::new(first, list.order).expect("aligned as the block is");
            if taken.len() < most {
                self.in_testing += part.count();
                part.frames().for_each(|frame| self.frames.get_mut(frame).holder = Holder::Tester);
                taken.push(Taken { block: part, held: Held::Singly });
            } else {
                part.frames().for_each(|frame| self.put_back(frame, End::Back));
            }
        }
        taken
    }

    fn put_back(&mut self, frame: Frame, end: End) {
        self.allocator.put(FrameBlock::of(frame), self.frames.get(frame).tested, end);
    }

    /// Returns the free frames of the list's node above the high watermarks: testers leave the rest for programs.
    fn spare(&self, list: FreeList) -> u64 {
        let zones = self.allocator.zones().filter(|(_, zone)| zone.node == list.node);
        zones.map(|(at, _)| self.allocator.free_frames(at).saturating_sub(self.allocator.watermarks(at).high)).sum()
    }

    fn take_block(&mut self, block: FrameBlock) -> Option<Taken> {
        self.allocator.claim(block)?;
        self.in_testing += block.count();
        block.frames().for_each(|frame| self.frames.get_mut(frame).holder = Holder::Tester);
        Some(Taken { block, held: Held::Whole })
    }

    /// Returns the blocks of a list that have preferred frames.
    fn preferred_blocks(&self, list: FreeList, most: usize) -> Vec<FrameBlock> {
        let mut blocks: Vec<FrameBlock> = Vec::new();
        for range in &self.preferred {
            let frames = (0..range.count()).filter_map(|offset| range.start().checked_add(offset));
            for frame in frames {
                let FramePlace::Free(block) = self.allocator.place(frame) else { continue };
                let is_new = block.order() == list.order && blocks.last() != Some(&block);
                if is_new && self.description.node_of_frame(frame) == list.node && blocks.len() < most {
                    blocks.push(block);
                }
            }
        }
        blocks
    }
}

impl FrameSource for SimulatedMachine {
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
        let good = |entry: &FrameEntry| entry.holder == Holder::Nobody && testing.lifetime.is_fresh(entry.tested, now);
        self.frames.count(good) as u64
    }

    fn take(&mut self, list: FreeList, most: u64, now: Timestamp) -> Vec<Taken> {
        let most = usize::try_from(most.min(self.spare(list) / list.order.frames())).unwrap_or(usize::MAX);
        if most == 0 {
            return Vec::new();
        }
        let mut blocks = self.preferred_blocks(list, most);
        let mut passed_over = 0;
        for &name in self.lists_of(list) {
            // [Rahman16, fig. 7]: search from the end, where the old blocks are, past all tested ones, until there are
            // enough.
            for (block, mark) in self.allocator.blocks(name, End::Back) {
                if blocks.len() >= most {
                    break;
                }
                if self.is_fresh(block, mark, now) {
                    passed_over += 1;
                } else if !blocks.contains(&block) || self.preferred.is_empty() {
                    blocks.push(block);
                }
            }
        }
        self.passed_over += passed_over;
        let mut taken: Vec<Taken> = blocks.into_iter().filter_map(|block| self.take_block(block)).collect();
        while taken.len() < most {
            let more = self.split_larger(list, most - taken.len(), now);
            if more.is_empty() {
                break;
            }
            taken.extend(more);
        }
        taken
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
