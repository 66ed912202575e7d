//! Blocks in use, and those that migration had to split.
//!
//! **Problem.** A huge page often finds no room as a whole; a kernel then splits it, and moves it page by page. Loads
//! know it as one block. **Idea.** A [`Held`] is either one block or stands for several [`SplitPiece`]s, which the
//! machine keeps. **Why this way.** A load gives back what it got, whatever became of it.

use rampart_buddy::Migratetype;
use rampart_memory::FrameBlock;

/// A block in use.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The block; where it lay before, if it was split.
    pub block: FrameBlock,
    /// Whose it is.
    pub migratetype: Migratetype,
    /// Its pieces, if it was split.
    pub(super) split: Option<SplitNumber>,
    /// The pass that moved it last; 0 if none did.
    pub(super) pass: u32,
}

impl Held {
    /// Returns a block that has not moved.
    pub const fn new(block: FrameBlock, migratetype: Migratetype) -> Self {
        Self { block, migratetype, split: None, pass: 0 }
    }
}

/// Names the pieces of a block that was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitNumber(usize);

/// A part of a block that was split.
#[derive(Clone, Copy, Debug)]
pub struct SplitPiece {
    /// Where it lies.
    pub block: FrameBlock,
    /// The pass that moved it last.
    pub pass: u32,
}

/// All blocks that were split.
#[derive(Debug, Default)]
pub struct SplitBlocks {
    pieces: Vec<Vec<SplitPiece>>,
    vacant: Vec<SplitNumber>,
}

impl SplitBlocks {
    /// Keeps the pieces of a block.
    pub fn insert(&mut self, pieces: Vec<SplitPiece>) -> SplitNumber {
        if let Some(number) = self.vacant.pop() {
            self.pieces[number.0] = pieces;
            return number;
        }
        self.pieces.push(pieces);
        SplitNumber(self.pieces.len() - 1)
    }

    /// Forgets a block, and returns its pieces.
    pub fn remove(&mut self, number: SplitNumber) -> Vec<SplitPiece> {
        self.vacant.push(number);
        std::mem::take(&mut self.pieces[number.0])
    }

    /// Returns all pieces.
    pub fn pieces_mut(&mut self) -> impl Iterator<Item = &mut SplitPiece> {
        self.pieces.iter_mut().flatten()
    }
}
