//! The mark of a free block.

use rampart_memory::Tested;

/// Information about all frames of a free block.
///
/// A merged block has one mark for both halves, so [`Mark::join`] returns the information that is true of both, such as
/// the older of two times of a last test. A block that is split gives each half its own mark.
pub trait Mark: Copy + Eq + Send + 'static {
    /// The mark of frames of which nothing is known.
    const UNKNOWN: Self;

    /// Returns the mark that is true of both. Associative and commutative, and `a.join(a) == a`.
    #[must_use]
    fn join(self, other: Self) -> Self;
}

/// No information: an allocator without marks.
impl Mark for () {
    const UNKNOWN: Self = ();

    fn join(self, (): Self) -> Self {}
}

/// A block is as old as its oldest frame [Rahman16, 4.1].
impl Mark for Tested {
    const UNKNOWN: Self = Self::NEVER;

    #[inline]
    fn join(self, other: Self) -> Self {
        self.min(other)
    }
}
