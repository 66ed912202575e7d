//! Requests to an allocator, and the blocks that it returns.

use rampart_memory::{BlockOrder, FrameBlock, Node};

use crate::{Cpu, ListName, Migratetype};

/// A request for a block of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The order of the block.
    pub order: BlockOrder,
    /// The migratetype of its pages.
    pub migratetype: Migratetype,
    /// The requesting CPU: a single frame comes from its list.
    pub cpu: Cpu,
    /// The preferred node; other nodes follow if it has no block.
    pub node: Node,
    /// Whether the reserve below the min watermark may be used, as by a program that is about to free memory
    /// (`PF_MEMALLOC` in Linux).
    pub urgent: bool,
}

/// A block that the requester holds until it frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated<M> {
    /// The block.
    pub block: FrameBlock,
    /// Its mark.
    pub mark: M,
    /// The list that it came from.
    pub from: AllocationOrigin,
}

/// The list that an allocated block came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationOrigin {
    /// The list of a CPU.
    Local(Cpu),
    /// This global list, of a larger order if the block was split, of another migratetype if it was stolen.
    Global(ListName),
}
