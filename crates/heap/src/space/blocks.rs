//! The blocks: which pages back them, and what the last collection found in them.

use super::lines::LineCensus;
use crate::geometry::BlockIndex;
use crate::pools::BlockPages;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
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

/// Whether a collection moves the objects of a block away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Evacuation {
    /// It does not.
    #[default]
    Stays,
    /// As far as there is room elsewhere, so that fewer blocks have holes.
    Opportunistic,
    /// It must, from lines that have failed since they were allocated.
    FromFailedLines,
}

/// A block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub state: BlockState,
    pub pages: Option<BlockPages>,
    pub census: LineCensus,
    pub evacuation: Evacuation,
}

/// All blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    blocks: Vec<Block>,
    absent: Vec<BlockIndex>,
}

impl Blocks {
    /// So many blocks without pages. The first never has any: offset 0 is no object.
    pub fn new(count: usize) -> Self {
        let block = Block {
            state: BlockState::Absent,
            pages: None,
            census: LineCensus::default(),
            evacuation: Evacuation::Stays,
        };
        Self { blocks: vec![block; count], absent: (1..count).rev().map(BlockIndex::new).collect() }
    }

    pub fn get(&self, block: BlockIndex) -> &Block {
        &self.blocks[block.number()]
    }

    /// A block, if there is one of this number.
    pub fn find(&self, block: BlockIndex) -> Option<&Block> {
        self.blocks.get(block.number())
    }

    pub fn get_mut(&mut self, block: BlockIndex) -> &mut Block {
        &mut self.blocks[block.number()]
    }

    pub fn indices(&self) -> impl Iterator<Item = BlockIndex> + use<> {
        (0..self.blocks.len()).map(BlockIndex::new)
    }

    /// Gives a block these pages.
    pub fn map(&mut self, pages: BlockPages) -> BlockIndex {
        let block = self.absent.pop().expect("a block for each eight pages");
        let mapped = self.get_mut(block);
        *mapped = Block {
            state: BlockState::InUse,
            pages: Some(pages),
            census: LineCensus::default(),
            evacuation: Evacuation::Stays,
        };
        block
    }

    /// Takes the pages of a block.
    pub fn unmap(&mut self, block: BlockIndex) -> BlockPages {
        let unmapped = self.get_mut(block);
        unmapped.state = BlockState::Absent;
        unmapped.evacuation = Evacuation::Stays;
        let pages = unmapped.pages.take().expect("only a block with pages is unmapped");
        self.absent.push(block);
        pages
    }

    /// The bytes of the table.
    pub const fn metadata_bytes(&self) -> u64 {
        (self.blocks.len() * (size_of::<Block>() + size_of::<BlockIndex>())) as u64
    }
}
