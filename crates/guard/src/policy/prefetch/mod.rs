//! The prefetcher verifies and unlocks ahead of the program.
//!
//! [`streams`] predicts from the faults of a program what it uses next. [`rounds`] does so for a program that comes
//! back to many blocks in turn. [`queue`] keeps the requests that wait. This module has the types that they share.

pub mod queue;
pub mod rounds;
pub mod streams;

use crate::state::layout::{BlockIndex, PageIndex};

/// How a program got to where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It jumped, or it is too early to say.
    Unknown,
    /// Through all of the memory in between, upwards or downwards.
    Sweep {
        /// Towards greater addresses.
        up: bool,
    },
    /// By steps, each of which uses only a little.
    Stride,
}

/// What to do ahead of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Opens it.
    Open(BlockPart),
    /// Verifies it and leaves it closed. The program stops there for a moment, which tells how far it has come.
    Verify(BlockPart),
}

impl Want {
    /// What it is about.
    #[must_use]
    pub const fn part(self) -> BlockPart {
        let (Self::Open(part) | Self::Verify(part)) = self;
        part
    }
}

/// What of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPart {
    /// All of it.
    Block(BlockIndex),
    /// The unit of this page.
    UnitOf(PageIndex),
    /// The units behind those that were opened last.
    NextOf(BlockIndex),
}
