//! The parts of a machine that an allocator distinguishes: zones, CPUs, lists and their ends.

use rampart_memory::{BlockOrder, FrameRange, Node};

use crate::Migratetype;

/// A CPU, by number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

impl Cpu {
    /// The most CPUs of a machine: more than Linux supports.
    pub const MOST: u32 = 1 << 16;
}

/// What a zone's memory can be used for, the scarcest first [Panwar15, 2.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneKind {
    /// Below 16 MiB: addressable by the oldest devices.
    Dma,
    /// Below 4 GiB: addressable by devices with 32 address lines.
    Dma32,
    /// The rest.
    Normal,
}

/// A part of a node's memory with free lists of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The node that it belongs to.
    pub node: Node,
    /// Its kind.
    pub kind: ZoneKind,
    /// Its frames, at most [`Zone::MOST_FRAMES`].
    pub frames: FrameRange,
}

impl Zone {
    /// The most frames of a zone: 8 TiB.
    pub const MOST_FRAMES: u64 = 1 << 31;
}

/// A zone, by its index among those given to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneIndex(pub usize);

/// One global free list: the free blocks of one order and migratetype in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListName {
    /// The zone.
    pub zone: ZoneIndex,
    /// The order of its blocks.
    pub order: BlockOrder,
    /// The migratetype of its blocks.
    pub migratetype: Migratetype,
}

/// An end of a free list [Rahman16, A.1.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The end that allocation takes from.
    Front,
    /// The end for blocks to be allocated last.
    Back,
}

impl End {
    /// Returns the other end.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}
