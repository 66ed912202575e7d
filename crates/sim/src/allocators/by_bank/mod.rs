//! Any allocator with pools of banks, without lists and marks.
//!
//! **Problem.** Such an allocator does not say which free block was tested longest ago. **Idea.** The machine knows the
//! last test of each frame. For each list a *cursor* goes round the banks that are online: [`walk`]. **Why this
//! way.** An allocator needs nothing for it, and a call costs a bounded number of steps.
//!
//! The rules:
//! - A call looks at no more than [`MOST_LOOKED_AT`](walk::MOST_LOOKED_AT) frames of the programs' banks, then at as
//!   many of the kernel's, and at each bank once. The next call goes on there.
//! - Blocks of the list's order come first; larger ones are cut only if a call finds too few. A call that had no use
//!   for all that it saw begins again where the rest is.
//! - So each block of the list is found within ⌈f / m⌉ + ⌈s / b⌉ + 1 calls, if no bank comes online meanwhile: f are
//!   the node's frames in the pool, m is [`MOST_LOOKED_AT`](walk::MOST_LOOKED_AT), s the blocks of that order without a
//!   good test, also in larger blocks, and b how many a call may take.
//! - A bank that is offline is off: no test looks at it or opens it. When a bank goes offline, the tests of its frames
//!   are forgotten.
//! - Testers leave as many frames free as the high watermarks say, in the programs' banks and in the kernel's: else a
//!   test would make the allocator open a bank.
//! - A program gets a tested frame in place of the allocator's choice only from a bank of the same pool.

mod usage;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rampart_buddy::{BankPool, BankPools, BankSize, Cpu, End, FramePlace, PageAllocator, Request, Zone, ZoneIndex};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, FreeList, Node, Tested};

use super::{DrawnBlocks, FrameTake, SearchWork, TestableAllocator};
use crate::frames::FrameTests;
use usage::BankUsage;
use walk::Cursors;

#[cfg(test)]
use walk::MOST_LOOKED_AT;

/// The CPU on which testers give blocks back.
const TESTER: Cpu = Cpu(0);

/// An allocator with pools of banks.
pub struct ByBank<A> {
    allocator: A,
    usage: BankUsage,
    cursors: Cursors,
    /// Parts of larger blocks, of the order that the last search was for, without a good test. The first is the last.
    cuts: Vec<FrameBlock>,
    retired: BTreeSet<Frame>,
    /// The frame that was allocated last.
    latest: Option<Frame>,
}

impl<A: PageAllocator + BankPools> ByBank<A> {
    /// Returns the allocator, made for these zones and banks, none of whose frames is held.
    pub fn new(allocator: A, zones: &[Zone], bank: BankSize) -> Self {
        let usage = BankUsage::new(&allocator, zones, bank);
        let cursors = Cursors::new(&usage);
        Self { allocator, usage, cursors, cuts: Vec::new(), retired: BTreeSet::new(), latest: None }
    }

    fn pool_of(&self, frame: Frame) -> Option<BankPool> {
        self.usage.part_of(frame).map(|part| self.allocator.pool(part))
    }

    /// Returns the pool that a program gets its next frame from: the kernel's only if nothing else is left.
    fn pool_of_programs(&self) -> BankPool {
        let has_room = |part: usize| match self.allocator.pool(part) {
            BankPool::Kernel => false,
            BankPool::User => self.usage.free(part) > 0,
            BankPool::Offline => true,
        };
        if self.usage.parts().any(has_room) { BankPool::User } else { BankPool::Kernel }
    }

    /// Returns how many free frames of a node's banks in a pool testers may take.
    fn spare_in(&self, node: Node, pool: BankPool) -> u64 {
        let parts = self.usage.of_node(node).iter().filter(|&&part| self.allocator.pool(part) == pool);
        let free: u64 = parts.map(|&part| self.usage.free(part)).sum();
        free.saturating_sub(self.reserve(node))
    }

    fn reserve(&self, node: Node) -> u64 {
        let zones = (0..).map_while(|zone| Some((ZoneIndex(zone), self.allocator.zone(ZoneIndex(zone))?)));
        zones.filter(|(_, zone)| zone.node == node).map(|(at, _)| self.allocator.watermarks(at).high).sum()
    }

    fn give(&mut self, block: FrameBlock, cpu: Cpu) {
        self.allocator.free(block, cpu);
        let lost = if self.retired.is_empty() {
            0
        } else {
            self.retired.range(block.first()..).take_while(|&&frame| block.contains(frame)).count() as u64
        };
        self.usage.give(block, lost);
    }

    /// Returns the order of the free block that a frame was taken from.
    fn order_before(&self, frame: Frame) -> BlockOrder {
        let is_free = |order: BlockOrder| {
            let buddy = Frame::new(frame.number() >> order.number() << order.number() ^ order.frames());
            let place = buddy.map(|buddy| self.allocator.place(buddy));
            matches!(place, Some(FramePlace::Free(block)) if block.order() == order)
        };
        let whole = BlockOrder::all().take_while(|&order| is_free(order)).last();
        whole.map_or(BlockOrder::ZERO, |order| order.above().unwrap_or(order))
    }
}

impl<A: PageAllocator + BankPools> TestableAllocator for ByBank<A> {
    const CUTS_INTO_FRAMES: bool = false;

    fn allocate(&mut self, request: Request) -> Option<FrameBlock> {
        let block = self.allocator.allocate(request)?;
        self.usage.take(block, true);
        self.latest = Some(block.first());
        Some(block)
    }

    fn free(&mut self, block: FrameBlock, cpu: Cpu, _: Tested, _: End) {
        self.give(block, cpu);
    }

    fn put(&mut self, block: FrameBlock, _: Tested, _: End) {
        self.give(block, TESTER);
    }

    fn retire(&mut self, frame: Frame) {
        debug_assert_eq!(self.allocator.place(frame), FramePlace::Held, "only a frame under test is found bad");
        self.allocator.retire(frame);
        self.retired.insert(frame);
    }

    fn place(&self, frame: Frame) -> FramePlace {
        self.allocator.place(frame)
    }

    fn claim(&mut self, block: FrameBlock) -> bool {
        let is_online = self.pool_of(block.first()).is_some_and(|pool| pool != BankPool::Offline);
        let claimed = is_online && self.allocator.claim(block);
        if claimed {
            self.usage.take(block, false);
        }
        claimed
    }

    fn take_free(&mut self, frame: Frame, chosen: Frame, _: &FrameTests<'_>) -> FrameTake {
        let is_for_it = self.pool_of(frame) == self.pool_of(chosen);
        if is_for_it && self.claim(FrameBlock::of(frame)) { FrameTake::Taken } else { FrameTake::No }
    }

    fn testable_block(&self, frame: Frame) -> Option<FrameBlock> {
        match self.allocator.place(frame) {
            FramePlace::Free(block) if self.pool_of(frame) != Some(BankPool::Offline) => Some(block),
            _ => None,
        }
    }

    fn spare(&self, node: Node) -> u64 {
        self.spare_in(node, BankPool::User) + self.spare_in(node, BankPool::Kernel)
    }

    /// Goes round the banks of the pool that programs get frames of next, then round the others.
    fn find_stale(
        &mut self,
        list: FreeList,
        most: usize,
        blocks: &mut Vec<FrameBlock>,
        tests: &FrameTests<'_>,
    ) -> SearchWork {
        self.cuts.clear();
        let mut work = SearchWork::default();
        let first = self.pool_of_programs();
        let second = if first == BankPool::User { BankPool::Kernel } else { BankPool::User };
        for pool in [first, second] {
            let planned = blocks.len() + self.cuts.len();
            if planned >= most {
                break;
            }
            let spare = usize::try_from(self.spare_in(list.node, pool) / list.order.frames()).unwrap_or(usize::MAX);
            let wanted = spare.min(most - planned);
            work.looked_at += self.walk(list, pool, wanted, blocks, tests);
        }
        self.cuts.reverse();
        work
    }

    fn cut_stale(&mut self, list: FreeList, most: usize, _: &FrameTests<'_>) -> Vec<FrameBlock> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(part) = self.cuts.pop()
        {
            debug_assert_eq!(part.order(), list.order, "the last search was for this list");
            if self.claim(part) {
                taken.push(part);
            }
        }
        taken
    }

    /// A frame that was cut off a larger free block draws that block.
    fn drawn(&mut self) -> Vec<DrawnBlocks> {
        let Some(frame) = self.latest.take() else { return Vec::new() };
        let order = self.order_before(frame);
        let node = self.usage.node_of(frame);
        if order == BlockOrder::ZERO { Vec::new() } else { vec![DrawnBlocks { node, order, blocks: 1 }] }
    }

    fn gone_offline(&mut self) -> Option<FrameRange> {
        let Self { allocator, usage, .. } = self;
        usage.gone_offline(|part| allocator.pool(part) == BankPool::Offline)
    }

    /// The banks of the pool that programs get frames of next.
    fn of_programs(&self) -> Vec<FrameRange> {
        let pool = self.pool_of_programs();
        let parts = self.usage.parts().filter(|&part| self.allocator.pool(part) == pool);
        parts.map(|part| self.usage.frames(part)).collect()
    }

    fn forget(&mut self) {}

    fn offline_banks(&self) -> Option<u64> {
        Some(self.usage.parts().filter(|&part| self.allocator.pool(part) == BankPool::Offline).count() as u64)
    }

    /// What is known of the banks is what the allocator knows, and no frame of an offline bank has a test.
    fn check(&self, tests: &FrameTests<'_>) {
        for part in self.usage.parts() {
            let bank = self.allocator.part(part);
            assert_eq!((bank.frames, bank.free), (self.usage.frames(part), self.usage.free(part)), "bank part {part}");
            let tested = || (0..bank.frames.count()).filter_map(|offset| bank.frames.start().checked_add(offset));
            let untested = || tested().all(|frame| tests.of(frame) == Tested::NEVER || self.retired.contains(&frame));
            assert!(bank.pool != BankPool::Offline || untested(), "bank part {part} is offline and has tests");
        }
    }
}
