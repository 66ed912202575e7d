//! Any allocator with free lists and marks: the interface of [Rahman16, A.1.1].

use rampart_buddy::{Cpu, End, FramePlace, FreeLists, ListName, Request};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, FreeList, Node, Tested};

use super::{DrawnBlocks, FrameTake, SearchWork, TestableAllocator};
use crate::frames::FrameTests;

/// An allocator with lists.
pub struct ByLists<L> {
    lists: L,
    /// The lists of each node and order: those of its zones and of all migratetypes.
    names: Vec<Vec<Vec<ListName>>>,
    /// The allocator's count of refills at the last look.
    refills: u64,
    allocated_from: Vec<[u64; BlockOrder::COUNT]>,
}

impl<L: FreeLists<Mark = Tested>> ByLists<L> {
    /// Returns the allocator `lists`, none of whose frames is held.
    pub fn new(lists: L) -> Self {
        let nodes = lists.zones().map(|(_, zone)| index_of(zone.node) + 1).max().unwrap_or(0);
        let of = |node: usize, order: BlockOrder| {
            let is_of = |name: &ListName| {
                name.order == order && lists.zones().any(|(at, zone)| at == name.zone && index_of(zone.node) == node)
            };
            lists.lists().filter(is_of).collect()
        };
        let names = (0..nodes).map(|node| BlockOrder::all().map(|order| of(node, order)).collect()).collect();
        Self { names, lists, refills: 0, allocated_from: vec![[0; BlockOrder::COUNT]; nodes] }
    }

    fn names(&self, list: FreeList) -> &[ListName] {
        self.names.get(index_of(list.node)).map_or(&[], |orders| &orders[list.order.index()])
    }

    /// Takes one frame of a free block and puts the others back.
    fn take_from_block(&mut self, block: FrameBlock, frame: Frame, tests: &FrameTests<'_>) {
        self.lists.claim(block);
        self.lists.split(block);
        for rest in block.frames().filter(|&rest| rest != frame) {
            self.lists.put(FrameBlock::of(rest), tests.of(rest), End::Front);
        }
    }
}

fn index_of(node: Node) -> usize {
    usize::try_from(node.0).expect("a handful of nodes")
}

impl<L: FreeLists<Mark = Tested>> TestableAllocator for ByLists<L> {
    const CUTS_INTO_FRAMES: bool = true;

    fn allocate(&mut self, request: Request) -> Option<FrameBlock> {
        self.lists.allocate(request).map(|allocated| allocated.block)
    }

    fn free(&mut self, block: FrameBlock, cpu: Cpu, mark: Tested, end: End) {
        self.lists.free(block, cpu, mark, end);
    }

    fn put(&mut self, block: FrameBlock, mark: Tested, end: End) {
        self.lists.put(block, mark, end);
    }

    fn retire(&mut self, frame: Frame) {
        self.lists.retire(frame);
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.lists.place(frame)
    }

    fn claim(&mut self, block: FrameBlock) -> bool {
        self.lists.claim(block).is_some()
    }

    /// The rest of the frame's block goes back. A frame on the list of a CPU cannot be taken now, but returns to the
    /// global lists later.
    fn take_free(&mut self, frame: Frame, _: Frame, tests: &FrameTests<'_>) -> FrameTake {
        match self.lists.place(frame) {
            FramePlace::Free(block) => {
                self.take_from_block(block, frame, tests);
                FrameTake::Taken
            }
            FramePlace::Local => FrameTake::Later,
            FramePlace::Held | FramePlace::Retired | FramePlace::Absent => FrameTake::No,
        }
    }

    fn testable_block(&self, frame: Frame) -> Option<FrameBlock> {
        match self.lists.place(frame) {
            FramePlace::Free(block) => Some(block),
            _ => None,
        }
    }

    /// Those above the high watermarks.
    fn spare(&self, node: Node) -> u64 {
        let zones = self.lists.zones().filter(|(_, zone)| zone.node == node);
        zones.map(|(at, _)| self.lists.free_frames(at).saturating_sub(self.lists.watermarks(at).high)).sum()
    }

    /// [Rahman16, fig. 7]: searches from the end, where the old blocks are, past all tested ones, until there are
    /// enough.
    fn find_stale(
        &mut self,
        list: FreeList,
        most: usize,
        blocks: &mut Vec<FrameBlock>,
        tests: &FrameTests<'_>,
    ) -> SearchWork {
        let before = blocks.clone();
        let mut passed_over = 0;
        for &name in self.names(list) {
            for (block, mark) in self.lists.blocks(name, End::Back) {
                if blocks.len() >= most {
                    break;
                }
                if tests.is_fresh(block, mark) {
                    passed_over += 1;
                } else if !before.contains(&block) {
                    blocks.push(block);
                }
            }
        }
        SearchWork { passed_over, looked_at: 0 }
    }

    fn cut_stale(&mut self, list: FreeList, most: usize, tests: &FrameTests<'_>) -> Vec<FrameBlock> {
        let larger = BlockOrder::all().filter(|&order| order > list.order);
        let names = larger.flat_map(|order| self.names(FreeList { order, ..list }));
        let backs = names.filter_map(|&name| self.lists.peek(name, End::Back));
        let stale = backs.filter(|&(block, mark)| !tests.is_fresh(block, mark)).map(|(block, _)| block).next();
        let Some(block) = stale else { return Vec::new() };
        self.lists.claim(block);
        self.lists.split(block);
        let mut taken = Vec::new();
        for part in parts_of(block, list.order) {
            if taken.len() < most {
                taken.push(part);
            } else {
                part.frames().for_each(|frame| self.lists.put(FrameBlock::of(frame), tests.of(frame), End::Back));
            }
        }
        taken
    }

    /// Blocks that move to the list of a CPU count too.
    fn drawn(&mut self) -> Vec<DrawnBlocks> {
        let refills = self.lists.statistics().refills;
        if refills == self.refills {
            return Vec::new();
        }
        self.refills = refills;
        let mut drawn = Vec::new();
        for (node, orders) in (0..).map(Node).zip(&self.names) {
            for (order, names) in BlockOrder::all().zip(orders) {
                let now: u64 = names.iter().map(|&name| self.lists.allocated_from(name)).sum();
                let before = std::mem::replace(&mut self.allocated_from[index_of(node)][order.index()], now);
                if now > before && order > BlockOrder::ZERO {
                    drawn.push(DrawnBlocks { node, order, blocks: now - before });
                }
            }
        }
        drawn
    }

    fn gone_offline(&mut self) -> Option<FrameRange> {
        None
    }

    fn of_programs(&self) -> Vec<FrameRange> {
        self.lists.zones().map(|(_, zone)| zone.frames).collect()
    }

    fn forget(&mut self) {
        self.lists.remark(|_| Tested::NEVER);
    }

    fn offline_banks(&self) -> Option<u64> {
        None
    }

    /// A free block is as old as its oldest frame, or older.
    fn check(&self, tests: &FrameTests<'_>) {
        for list in self.lists.lists() {
            for (block, mark) in self.lists.blocks(list, End::Front) {
                let oldest = block.frames().map(|frame| tests.of(frame)).min();
                assert!(oldest.is_some_and(|oldest| mark <= oldest), "{block} has the mark {mark:?}");
            }
        }
    }
}

/// Returns the parts of this order of a block.
pub fn parts_of(block: FrameBlock, order: BlockOrder) -> impl Iterator<Item = FrameBlock> {
    let step = usize::try_from(order.frames()).expect("at most 1,024");
    let firsts = (0..block.count()).step_by(step).filter_map(move |offset| block.first().checked_add(offset));
    firsts.map(move |first| FrameBlock::new(first, order).expect("aligned as the block is"))
}
