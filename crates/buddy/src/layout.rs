//! The parts of a machine that an allocator tells apart: zones, CPUs, lists and their ends.

use rampart_memory::{FrameRange, Node, Order};

use crate::Migratetype;

/// A CPU, by number from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

impl Cpu {
    /// CPUs that a machine can have: more than Linux is ever built for.
    pub const MOST: u32 = 1 << 16;
}

/// What a zone's memory can be used for, the scarcest first [Panwar15, 2.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneKind {
    /// Below 16 MiB: what the oldest devices can address.
    Dma,
    /// Below 4 GiB: what devices with 32 address lines can address.
    Dma32,
    /// The rest.
    Normal,
}

/// A part of a node's memory with free lists of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The node that it belongs to.
    pub node: Node,
    /// What it is kept for.
    pub kind: ZoneKind,
    /// Its frames, at most [`Zone::MOST_FRAMES`].
    pub frames: FrameRange,
}

impl Zone {
    /// Frames that a zone can have: 8 TiB.
    pub const MOST_FRAMES: u64 = 1 << 31;
}

/// A zone by its place among those that the allocator was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneIndex(pub usize);

/// One global free list: the free blocks of one order and migratetype in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListName {
    /// The zone.
    pub zone: ZoneIndex,
    /// How large its blocks are.
    pub order: Order,
    /// What its blocks are kept for.
    pub migratetype: Migratetype,
}

/// An end of a free list [Rahman16, A.1.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Where allocation takes from.
    Front,
    /// Where what should be allocated last is put.
    Back,
}

impl End {
    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}
