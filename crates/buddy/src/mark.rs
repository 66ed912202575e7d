//! What a free block carries besides being free.

use rampart_memory::Tested;

/// What is known of the frames of a free block, all of them alike.
///
/// A merged block has one mark for both halves, so [`Mark::join`] keeps what is true of both: of two times of a last
/// test the older one. A block that is split gives each half its own mark.
pub trait Mark: Copy + Eq {
    /// What is true of both. Associative and commutative, and `a.join(a) == a`.
    #[must_use]
    fn join(self, other: Self) -> Self;
}

/// Nothing is known: an allocator without marks.
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
