//! The walk: which free block of a list is tested next.

use rampart_buddy::{BankPool, BankPools, PageAllocator};
use rampart_memory::{BlockOrder, FrameBlock, FreeList, Tested};

use super::super::TestableAllocator;
use super::super::by_lists::parts_of;
use super::ByBank;
use super::usage::BankUsage;
use crate::frames::FrameTests;

/// The most frames that a call looks at in one pool: 32 KiB of the machine's table of frames.
pub const MOST_LOOKED_AT: u64 = 2048;

/// Where the next call goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// The index among the node's parts.
    part: usize,
    /// The frame in that part, from its first one on.
    offset: u64,
}

/// The cursors of all lists, by node, order and pool.
#[derive(Clone, Debug)]
pub struct Cursors(Vec<[[Cursor; 2]; BlockOrder::COUNT]>);

impl Cursors {
    pub fn new(usage: &BankUsage) -> Self {
        Self(vec![[[Cursor::default(); 2]; BlockOrder::COUNT]; usage.nodes()])
    }

    fn of(&mut self, list: FreeList, pool: BankPool) -> Option<&mut Cursor> {
        let node = usize::try_from(list.node.0).ok().and_then(|node| self.0.get_mut(node))?;
        Some(&mut node[list.order.index()][usize::from(pool == BankPool::Kernel)])
    }
}

impl<A: PageAllocator + BankPools> ByBank<A> {
    /// Goes on round a node's banks in a pool, until `wanted` blocks of the list are found. If there are too few,
    /// plans to cut larger blocks. Returns how many frames it looked at.
    pub(super) fn walk(
        &mut self,
        list: FreeList,
        pool: BankPool,
        wanted: usize,
        blocks: &mut Vec<FrameBlock>,
        tests: &FrameTests<'_>,
    ) -> u64 {
        let Some(mut cursor) = self.cursors.of(list, pool).copied() else { return 0 };
        let parts = self.usage.of_node(list.node);
        let (known, mut found, mut larger) = (blocks.len(), 0, Vec::new());
        let (mut looked_at, mut banks, start) = (0, 0, cursor.offset);
        let is_round =
            |banks: usize, cursor: Cursor| banks > parts.len() || banks == parts.len() && cursor.offset >= start;
        while found < wanted && looked_at < MOST_LOOKED_AT && !is_round(banks, cursor) {
            let part = parts[cursor.part];
            let frames = self.usage.frames(part);
            if cursor.offset >= frames.count() || self.allocator.pool(part) != pool || self.usage.free(part) == 0 {
                cursor = Cursor { part: (cursor.part + 1) % parts.len(), offset: 0 };
                banks += 1;
                continue;
            }
            let frame = frames.start().checked_add(cursor.offset).expect("a frame of the part");
            let stale = if tests.is_stale(frame) { self.testable_block(frame) } else { None };
            // A block is looked at as a whole.
            let next = stale.map_or(frame.number() + 1, |block| block.first().number() + block.count());
            looked_at += next - frame.number();
            cursor.offset = next - frames.start().number();
            match stale {
                Some(block) if block.order() == list.order && !blocks[..known].contains(&block) => {
                    blocks.push(block);
                    found += 1;
                }
                Some(block) if block.order() > list.order => larger.push((cursor.part, block)),
                _ => {}
            }
        }
        let rest = self.plan_cuts(list, &larger, wanted - found, tests);
        if let Some(kept) = self.cursors.of(list, pool) {
            *kept = rest.unwrap_or(cursor);
        }
        looked_at
    }

    /// Plans to cut `wanted` blocks without a good test off larger ones, and returns where there is more.
    fn plan_cuts(
        &mut self,
        list: FreeList,
        larger: &[(usize, FrameBlock)],
        wanted: usize,
        tests: &FrameTests<'_>,
    ) -> Option<Cursor> {
        let planned = self.cuts.len();
        for &(part, block) in larger {
            let start = self.usage.frames(self.usage.of_node(list.node)[part]).start();
            for cut in parts_of(block, list.order).filter(|&cut| !tests.is_fresh(cut, Tested::NEVER)) {
                if self.cuts.len() - planned == wanted {
                    return Some(Cursor { part, offset: cut.first().number() - start.number() });
                }
                self.cuts.push(cut);
            }
        }
        None
    }
}
