//! The prefetcher verifies and unlocks ahead of the program.
//!
//! [`streams`] predicts the next accesses from a program's faults. [`rounds`] does so for a program that returns to
//! many blocks in turn. [`queue`] keeps the waiting requests. This module has their common types.

pub mod queue;
pub mod rounds;
pub mod streams;

use crate::state::layout::{BlockIndex, PageIndex};

/// The access pattern by which a program reached a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessPattern {
    /// A jump, or too early to say.
    Unknown,
    /// Sequential: through all of the memory in between, upwards or downwards.
    Sequential {
        /// Towards greater addresses.
        up: bool,
    },
    /// Strided: by steps that each use only a little.
    Strided,
}

/// A request of the prefetcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchRequest {
    /// Unlock it.
    Unlock(BlockPart),
    /// Verify it and leave it unmapped. The program's fault there is short, and shows how far it has come.
    Verify(BlockPart),
}

impl PrefetchRequest {
    /// The part that it is about.
    #[must_use]
    pub const fn part(self) -> BlockPart {
        let (Self::Unlock(part) | Self::Verify(part)) = self;
        part
    }
}

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockPart {
    /// All of it.
    Block(BlockIndex),
    /// The unit with this page.
    UnitOf(PageIndex),
    /// The units after those that were unlocked last.
    NextOf(BlockIndex),
}
