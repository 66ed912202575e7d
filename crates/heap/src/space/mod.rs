//! Where objects lie: blocks of lines, and large objects on pages of their own.

pub(crate) mod allocator;
pub(crate) mod blocks;
pub(crate) mod large;
pub(crate) mod lines;

use self::blocks::{Block, BlockState, Blocks, Evacuation};
use self::large::LargeObjects;
use self::lines::{LineMarks, Unavailable};
use crate::geometry::{BLOCK_BYTES, BLOCK_PAGES, BlockIndex, LineSize, PAGE};
use crate::pools::{BlockPages, HeapPage, PagePools};
use crate::wear::FailedLines;

/// Who allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The program. It leaves the collector room.
    Mutator,
    /// A collection of young objects, which moves them.
    Nursery,
    /// A full collection.
    Full,
}

impl Source {
    const fn unavailable(self) -> Unavailable {
        match self {
            Self::Mutator | Self::Nursery => Unavailable::Live,
            Self::Full => Unavailable::LiveOrBefore,
        }
    }
}

/// Blocks, large objects, and the pages below them.
#[derive(Debug)]
pub(crate) struct Space {
    pub lines: LineMarks,
    pub blocks: Blocks,
    pub large: LargeObjects,
    pub pools: PagePools,
    /// Blocks with holes; the last is the next to be allocated in.
    pub recyclable: Vec<BlockIndex>,
    /// Blocks that were allocated in since the last collection.
    pub in_use: Vec<BlockIndex>,
    /// The pages that only a collection may take.
    pub headroom: usize,
}

impl Space {
    /// All pages of a heap, of which these lines have failed.
    pub fn new(failed: Vec<FailedLines>, line: LineSize, headroom: usize, end: u64) -> Self {
        let blocks = failed.len().div_ceil(BLOCK_PAGES) + 1;
        let first_large = u32::try_from(blocks).expect("blocks of 4 GiB") * BLOCK_BYTES;
        Self {
            lines: LineMarks::new(blocks, line),
            blocks: Blocks::new(blocks),
            large: LargeObjects::new(first_large, end),
            pools: PagePools::new(failed),
            recyclable: Vec::new(),
            in_use: Vec::new(),
            headroom,
        }
    }

    /// The next block to allocate small objects in: one with holes if there is one.
    fn next_block(&mut self, source: Source) -> Option<BlockIndex> {
        let Some(block) = self.recyclable.pop() else { return self.new_block(source) };
        self.use_block(block);
        Some(block)
    }

    /// A block in which nothing is live.
    fn new_block(&mut self, source: Source) -> Option<BlockIndex> {
        self.may_take(BLOCK_PAGES, source).then(|| self.pools.take_block()).flatten().map(|pages| self.map(pages))
    }

    /// A block on perfect pages.
    fn perfect_block(&mut self, source: Source) -> Option<BlockIndex> {
        let pages = self.may_take(BLOCK_PAGES, source).then(|| self.pools.take_perfect(BLOCK_PAGES)).flatten()?;
        Some(self.map(pages.try_into().expect("as many as a block has")))
    }

    /// Pages for a large object, and its place.
    pub fn take_large(&mut self, bytes: u32, source: Source) -> Option<u32> {
        let count = bytes.div_ceil(PAGE) as usize;
        let pages = self.may_take(count, source).then(|| self.pools.take_perfect(count)).flatten()?;
        let refused = match self.large.put(pages) {
            Ok(at) => return Some(at),
            Err(pages) => pages,
        };
        refused.into_iter().for_each(|page| self.pools.give_back(page));
        None
    }

    fn may_take(&self, pages: usize, source: Source) -> bool {
        source != Source::Mutator || self.pools.available() >= pages + self.headroom
    }

    fn use_block(&mut self, block: BlockIndex) {
        self.blocks.get_mut(block).state = BlockState::InUse;
        self.in_use.push(block);
    }

    /// Lets others allocate in the rest of a block.
    fn share(&mut self, block: BlockIndex) {
        self.recyclable.push(block);
    }

    fn map(&mut self, pages: BlockPages) -> BlockIndex {
        let block = self.blocks.map(pages);
        let (per_page, shift) = (self.lines.size().per_page(), self.lines.size().memory_lines());
        let mask = (1_u64 << shift) - 1;
        let failed_lines = |(number, page): (usize, HeapPage)| {
            let bits = self.pools.failed(page).bits();
            (0..per_page).filter(move |line| bits >> (*line as u32 * shift) & mask != 0).map(move |l| number * per_page + l)
        };
        let failed: Vec<usize> = pages.into_iter().enumerate().flat_map(failed_lines).collect();
        self.lines.reset(block, failed);
        self.in_use.push(block);
        block
    }

    /// Ends a collection: finds out what is free in the blocks that were allocated in, or in all of them.
    pub fn sweep_blocks(&mut self, all: bool) {
        let young = std::mem::take(&mut self.in_use);
        if all {
            self.recyclable.clear();
            for block in self.blocks.indices() {
                self.sweep_block(block);
            }
        } else {
            // A block that was shared is on both lists.
            self.recyclable.retain(|block| self.blocks.get(*block).state == BlockState::Recyclable);
            for block in young {
                if self.blocks.get(block).state == BlockState::InUse {
                    self.sweep_block(block);
                }
            }
        }
    }

    fn sweep_block(&mut self, block: BlockIndex) {
        if self.blocks.get(block).state == BlockState::Absent {
            return;
        }
        let census = self.lines.sweep(block);
        if census.live == 0 {
            let pages = self.blocks.unmap(block);
            self.pools.give_back_block(pages);
            return;
        }
        let state = if census.holes == 0 { BlockState::Full } else { BlockState::Recyclable };
        if state == BlockState::Recyclable {
            self.recyclable.push(block);
        }
        let swept = self.blocks.get_mut(block);
        *swept = Block { state, pages: swept.pages.take(), census, evacuation: Evacuation::Stays };
    }

    /// The bytes that can be allocated, as the last collection found them: free pages without their failed lines, and
    /// holes.
    pub fn free_bytes(&self) -> u64 {
        let line = u64::from(self.lines.size().bytes());
        let free_lines = |block: &BlockIndex| {
            let census = self.blocks.get(*block).census;
            self.lines.size().per_block() as u64 - u64::from(census.live) - u64::from(census.failed)
        };
        let in_holes: u64 = self.recyclable.iter().map(free_lines).sum();
        in_holes * line + self.pools.available() as u64 * u64::from(PAGE)
    }

    /// The bytes of all tables.
    pub fn metadata_bytes(&self) -> u64 {
        let lists = (self.recyclable.capacity() + self.in_use.capacity()) * size_of::<BlockIndex>();
        self.lines.metadata_bytes()
            + self.blocks.metadata_bytes()
            + self.large.metadata_bytes()
            + self.pools.metadata_bytes()
            + lists as u64
    }
}
