//! A request to an allocator, and its answer.

use rampart_memory::{BlockOrder, FrameBlock, Node};

use crate::{Cpu, ListName, Migratetype};

/// A request for a block of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The size.
    pub order: BlockOrder,
    /// The intended content of the frames.
    pub migratetype: Migratetype,
    /// The requesting CPU: a single frame comes from its list.
    pub cpu: Cpu,
    /// The preferred node; other nodes follow if it has no memory.
    pub node: Node,
    /// Whether the reserve below the min watermark may be used, as by a program that is about to free memory
    /// (`PF_MEMALLOC` in Linux).
    pub urgent: bool,
}

/// A block that the requester holds until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated<M> {
    /// Its frames.
    pub block: FrameBlock,
    /// Its mark while it was free.
    pub mark: M,
    /// Its place while it was free.
    pub from: AllocationOrigin,
}

/// The place where an allocated block was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationOrigin {
    /// On the list of a CPU.
    Local(Cpu),
    /// On this global list: of a larger order if the block had to be split, of another migratetype if it had to be
    /// stolen.
    Global(ListName),
}
