//! The failed lines of a page.

use std::fmt;

use rampart_memory::LINES_PER_FRAME;

/// The failed lines of a page, a bit for each line of 64 B: bit 0 is the line with the lowest address [Gao13, 3.2.1].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FailedLines(u64);

const _: () = assert!(LINES_PER_FRAME == u64::BITS as u64);

impl FailedLines {
    /// No line has failed: the page is perfect.
    pub const NONE: Self = Self(0);

    /// All lines have failed.
    pub const ALL: Self = Self(u64::MAX);

    /// The lines whose bits are set.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A bit for each failed line.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// How many lines have failed.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether no line has failed.
    #[must_use]
    pub const fn is_perfect(self) -> bool {
        self.0 == 0
    }

    /// Whether a line, below 64, has failed.
    #[must_use]
    pub const fn contains(self, line: u32) -> bool {
        self.0 >> line & 1 == 1
    }

    /// These lines and one more, below 64.
    #[must_use]
    pub const fn with(self, line: u32) -> Self {
        Self(self.0 | 1 << line)
    }

    /// The lines that failed in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The lines that have failed here, and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether what fits a page with the failed lines of `other` fits this page too: each of its failed lines has
    /// failed there [Gao13, 3.2.3].
    #[must_use]
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many lines have failed in the first half of the page, and in the second.
    #[must_use]
    pub const fn halves(self) -> (u32, u32) {
        let half = u64::BITS / 2;
        ((self.0 << half).count_ones(), (self.0 >> half).count_ones())
    }

    /// The failed lines, ascending.
    pub fn lines(self) -> impl Iterator<Item = u32> + Clone {
        (0..u64::BITS).filter(move |line| self.contains(*line))
    }
}

impl fmt::Debug for FailedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FailedLines({:#018x})", self.0)
    }
}
