//! The parts of a machine that an allocator distinguishes: zones, CPUs, lists and their ends.

use rampart_memory::{BlockOrder, FrameRange, Node};

use crate::Migratetype;

/// A CPU, by number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

impl Cpu {
    /// The most CPUs of a machine: more than any build of Linux allows.
    pub const MOST: u32 = 1 << 16;
}

/// The purpose of a zone's memory, the scarcest first [Panwar15, 2.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneKind {
    /// Below 16 MiB: memory that the oldest devices can address.
    Dma,
    /// Below 4 GiB: memory that devices with 32 address lines can address.
    Dma32,
    /// The rest.
    Normal,
}

/// A part of a node's memory with free lists of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its node.
    pub node: Node,
    /// Its purpose.
    pub kind: ZoneKind,
    /// Its frames, at most [`Zone::MOST_FRAMES`].
    pub frames: FrameRange,
}

impl Zone {
    /// The most frames of a zone: 8 TiB.
    pub const MOST_FRAMES: u64 = 1 << 31;
}

/// A zone by its index among the zones of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneIndex(pub usize);

/// One global free list: the free blocks of one order and migratetype in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListName {
    /// The zone.
    pub zone: ZoneIndex,
    /// The size of its blocks.
    pub order: BlockOrder,
    /// The purpose of its blocks.
    pub migratetype: Migratetype,
}

/// An end of a free list [Rahman16, A.1.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Allocation takes from here.
    Front,
    /// Blocks that should be allocated last are put here.
    Back,
}

impl End {
    /// The other end.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}
