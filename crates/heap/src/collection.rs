//! What a program asks of the collector, and what it must tell.

/// Which objects are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Those that came since the last collection: old ones keep their marks (sticky mark bits).
    Nursery,
    /// All.
    Full,
    /// All, and as many objects as possible move, so that pages become free as a whole: before memory is said to be
    /// out.
    Compacting,
}

impl Collection {
    /// The collection that frees more than this one; `None` if no other does.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Nursery => Some(Self::Full),
            Self::Full => Some(Self::Compacting),
            Self::Compacting => None,
        }
    }

    /// Whether old objects are collected, too.
    #[must_use]
    pub const fn is_of_all(self) -> bool {
        !matches!(self, Self::Nursery)
    }
}

/// The references that a program holds outside of the heap.
pub trait RootSet {
    /// Calls `visit` with the value of each, and replaces it by what comes back.
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32);
}

impl RootSet for Vec<u32> {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        self.iter_mut().for_each(|root| *root = visit(*root));
    }
}

impl<const COUNT: usize> RootSet for [u32; COUNT] {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        self.iter_mut().for_each(|root| *root = visit(*root));
    }
}
