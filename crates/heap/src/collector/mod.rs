//! Collections: marking what is live, and moving some of it [Gao13, 4.1] and 4.2.

mod trace;

pub use trace::Survivors;
pub(crate) use trace::Tracer;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceCounts {
    pub marked: u64,
    pub moved: u64,
    pub moved_bytes: u64,
    pub replaced: u64,
}
