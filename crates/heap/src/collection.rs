//! What a program asks of the collector, and what it must tell.

/// Which objects are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Those that came since the last collection: old ones keep their marks (sticky mark bits).
    Nursery,
    /// All.
    Full,
}

/// The references that a program holds outside of the heap.
pub trait RootSet {
    /// Calls `visit` with the value of each, and replaces it by what comes back.
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32);
}
