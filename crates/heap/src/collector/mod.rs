//! Collections: marking what is live, and moving some of it [Gao13, 4.1] and 4.2.

mod trace;

pub use trace::{Survivors};
pub(crate) use trace::Tracer;

/// Which objects are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Those that came since the last collection: old ones keep their marks (sticky mark bits).
    Nursery,
    /// All.
    Full,
}

/// The references that a program holds outside of the heap.
pub trait Roots {
    /// Calls `visit` with the value of each, and replaces it by what comes back.
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32);
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceCounts {
    pub marked: u64,
    pub moved: u64,
    pub moved_bytes: u64,
}
