//! The mark of a free block.

use rampart_memory::Tested;

/// A fact about all frames of a free block.
///
/// A merged block has one mark for both halves, so [`Mark::join`] keeps what holds for both: of two times of a last
/// test, the older one. When a block is split, each half gets the same mark.
pub trait Mark: Copy + Eq {
    /// The mark that holds for both. Associative and commutative, and `a.join(a) == a`.
    #[must_use]
    fn join(self, other: Self) -> Self;
}

/// No facts: an allocator without marks.
impl Mark for () {
    fn join(self, (): Self) -> Self {}
}

/// A block is as old as its oldest frame [Rahman16, 4.1].
impl Mark for Tested {
    #[inline]
    fn join(self, other: Self) -> Self {
        self.min(other)
    }
}
