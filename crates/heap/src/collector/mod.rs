//! Collections: marking what is live, and moving some of it [Gao13, 4.1] and 4.2.

mod access;
mod marker;
mod parallel;
mod slot_queue;
mod trace;

pub(crate) use parallel::{mark, mark_in_parallel};
pub use trace::Survivors;
pub(crate) use trace::Trace;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceCounts {
    pub marked: u64,
    pub moved: u64,
    pub moved_bytes: u64,
    /// The bytes of all that were marked or moved, but for large ones.
    pub live_bytes: u64,
    pub replaced: u64,
    /// The bytes of the markers' stacks in the end.
    pub stack_bytes: u64,
    /// Whether several threads marked.
    pub is_helped: bool,
}

impl TraceCounts {
    const fn plus(self, other: Self) -> Self {
        Self {
            marked: self.marked + other.marked,
            moved: self.moved + other.moved,
            moved_bytes: self.moved_bytes + other.moved_bytes,
            live_bytes: self.live_bytes + other.live_bytes,
            replaced: self.replaced + other.replaced,
            stack_bytes: self.stack_bytes + other.stack_bytes,
            is_helped: self.is_helped || other.is_helped,
        }
    }
}
