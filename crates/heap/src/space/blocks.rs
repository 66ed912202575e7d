//! The blocks: which pages back them, and what the last collection found in them.

use super::lines::LineCensus;
use crate::geometry::HeapBlock;
use crate::pools::BlockPages;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapBlockState {
    /// It has no pages.
    Absent,
    /// Nothing in it is live.
    Free,
    /// It was allocated in since the last collection.
    InUse,
    /// It has live lines, and holes to allocate in.
    Recyclable,
    /// It has live lines only, and failed ones.
    Full,
}

/// Which objects of a block a full collection moves. A collection of young objects moves all young ones, if there is
/// room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Evacuation {
    /// None.
    #[default]
    Stays,
    /// All, as far as there is room elsewhere, so that fewer blocks have holes.
    Opportunistic,
    /// Those on lines that have failed since they were allocated: these must move.
    FromFailedLines,
}

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct BlockRecord {
    pub state: HeapBlockState,
    pub pages: Option<BlockPages>,
    pub census: LineCensus,
    pub evacuation: Evacuation,
}

/// All blocks.
#[derive(Debug)]
pub(crate) struct BlockRecords {
    blocks: Vec<BlockRecord>,
    absent: Vec<HeapBlock>,
}

impl BlockRecords {
    /// So many blocks without pages. The first never has any: offset 0 is no object.
    pub fn new(count: usize) -> Self {
        let block = BlockRecord {
            state: HeapBlockState::Absent,
            pages: None,
            census: LineCensus::default(),
            evacuation: Evacuation::Stays,
        };
        Self { blocks: vec![block; count], absent: (1..count).rev().map(HeapBlock::new).collect() }
    }

    pub fn get(&self, block: HeapBlock) -> &BlockRecord {
        &self.blocks[block.number()]
    }

    /// A block, if there is one of this number.
    pub fn find(&self, block: HeapBlock) -> Option<&BlockRecord> {
        self.blocks.get(block.number())
    }

    pub fn get_mut(&mut self, block: HeapBlock) -> &mut BlockRecord {
        &mut self.blocks[block.number()]
    }

    pub fn indices(&self) -> impl Iterator<Item = HeapBlock> + use<> {
        (0..self.blocks.len()).map(HeapBlock::new)
    }

    /// Gives a block these pages; `None` if all blocks have some.
    pub fn map(&mut self, pages: BlockPages) -> Option<HeapBlock> {
        let block = self.absent.pop()?;
        let mapped = self.get_mut(block);
        *mapped = BlockRecord {
            state: HeapBlockState::InUse,
            pages: Some(pages),
            census: LineCensus::default(),
            evacuation: Evacuation::Stays,
        };
        Some(block)
    }

    /// Takes the pages of a block.
    pub fn unmap(&mut self, block: HeapBlock) -> BlockPages {
        let unmapped = self.get_mut(block);
        unmapped.state = HeapBlockState::Absent;
        unmapped.evacuation = Evacuation::Stays;
        let pages = unmapped.pages.take().expect("only a block with pages is unmapped");
        self.absent.push(block);
        pages
    }

    /// The bytes of the table.
    pub const fn metadata_bytes(&self) -> u64 {
        (self.blocks.len() * (size_of::<BlockRecord>() + size_of::<HeapBlock>())) as u64
    }
}
