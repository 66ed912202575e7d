//! What is asked of an allocator, and what it answers.

use rampart_memory::{FrameBlock, Node, Order};

use crate::{Cpu, ListName, Migratetype};

/// A wish for a block of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How large.
    pub order: Order,
    /// What the frames will hold.
    pub migratetype: Migratetype,
    /// The CPU that asks: a single frame comes from its list.
    pub cpu: Cpu,
    /// Where the frames should lie; other nodes follow when nothing can be had there.
    pub node: Node,
    /// Whether the reserve below the min watermark may be used, as by a program that is about to free memory
    /// (`PF_MEMALLOC` in Linux).
    pub urgent: bool,
}

/// A block that is the asker's until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated<M> {
    /// Its frames.
    pub block: FrameBlock,
    /// What was known of them.
    pub mark: M,
    /// Where it was.
    pub from: Origin,
}

/// Where an allocated block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On the list of a CPU.
    Local(Cpu),
    /// On this global list, of a larger order if the block had to be split, of another migratetype if it had to be
    /// stolen.
    Global(ListName),
}
