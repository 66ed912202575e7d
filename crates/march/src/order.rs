//! The sequence in which the lines of a region are visited.
//!
//! **Problem.** A march test finds a fault between two cells because it visits one of them first. A processor that
//! reads ahead, and a loop that keeps writes open to reach the DRAM fast, blur the order of cells that are visited
//! within a *window* of each other. **Idea.** Any permutation of the cells is a valid sequence. Run the test in two
//! sequences such that no pair of lines is within the window in both. **Why this one.** The second sequence goes down
//! the columns of a matrix with `stride` lines per row. Its inner loop has a constant stride, and lines less than half
//! a stride apart are a whole column apart in it. Each step opens another page, as the strided tests of [Rahman16,
//! 5.2.3.4] do to close row buffers.

use std::fmt;

use rampart_memory::RegionLine;
use serde::Serialize;

/// One of the two sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressSequence {
    /// Line after line, by address.
    Sequential,
    /// By columns: neighbours are visited far apart.
    Strided,
}

impl fmt::Display for AddressSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sequential => "sequential",
            Self::Strided => "strided",
        })
    }
}

/// A sequence over the lines of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    lines: u64,
    stride: u64,
}

/// Lines `first`, `first + stride`, `first + 2 stride`, …: `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The first line.
    pub first: RegionLine,
    /// The number of lines; at least 1.
    pub count: u64,
    /// The distance from one to the next, in lines; at least 1.
    pub stride: u64,
}

impl Visit {
    /// The widest window, in visits, that both sequences together make harmless in a region of `lines`: about
    /// √(lines/2).
    #[must_use]
    pub const fn safe_window(lines: u64) -> u64 {
        let root = (lines / 2).isqrt();
        // A column must be at least a window long: lines / (2 w + 1) >= w.
        if lines / (2 * root + 1) < root { root - 1 } else { root }
    }

    /// The sequence over a region of `lines` (at least 1) for a loop that blurs the order inside `window` visits.
    #[must_use]
    pub fn new(order: AddressSequence, lines: u64, window: u64) -> Self {
        assert!(lines > 0, "a region has lines");
        let stride = match order {
            AddressSequence::Sequential => 1,
            AddressSequence::Strided => (2 * window + 1).min(lines),
        };
        Self { lines, stride }
    }

    /// The same stride, or the longest possible one, over a region of `lines` (at least 1).
    pub(crate) fn over(self, lines: u64) -> Self {
        assert!(lines > 0, "a region has lines");
        Self { lines, stride: self.stride.min(lines) }
    }

    /// The columns, in ascending order of visit. The sequential one has a single column.
    pub fn columns(self) -> impl DoubleEndedIterator<Item = Column> {
        (0..self.stride).map(move |column| Column {
            first: RegionLine(column),
            count: (self.lines - column).div_ceil(self.stride),
            stride: self.stride,
        })
    }

    /// The position of a line in an ascending sweep, counted from 0.
    #[must_use]
    pub fn position(self, line: RegionLine) -> u64 {
        let (row, column) = (line.0 / self.stride, line.0 % self.stride);
        let longer = self.lines % self.stride;
        column * (self.lines / self.stride) + column.min(longer) + row
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reference model: all columns line by line.
    pub(crate) fn visited(visit: Visit) -> Vec<u64> {
        visit.columns().flat_map(|c| (0..c.count).map(move |row| c.first.0 + row * c.stride)).collect()
    }

    proptest! {
        #[test]
        fn every_line_is_visited_once_at_its_position(lines in 1_u64..3000, window in 0_u64..100) {
            for order in [AddressSequence::Sequential, AddressSequence::Strided] {
                let visit = Visit::new(order, lines, window);
                let order = visited(visit);
                for (position, &line) in order.iter().enumerate() {
                    prop_assert_eq!(visit.position(RegionLine(line)), position as u64);
                }
                prop_assert_eq!(order.len() as u64, lines);
            }
        }

        #[test]
        fn no_pair_is_inside_the_window_in_both_orders(lines in 1_u64..3000) {
            let window = Visit::safe_window(lines);
            let strided = Visit::new(AddressSequence::Strided, lines, window);
            for a in 0..lines {
                for b in a + 1..(a + window).min(lines) {
                    let apart = strided.position(RegionLine(a)).abs_diff(strided.position(RegionLine(b)));
                    prop_assert!(apart >= window, "{a} and {b} of {lines}: {apart} visits apart, window {window}");
                }
            }
        }
    }

    #[test]
    fn the_window_is_the_widest_that_no_column_is_shorter_than() {
        for lines in 0..3000 {
            let widest = (0..=lines).take_while(|window| lines / (2 * window + 1) >= *window).last();
            assert_eq!(Some(Visit::safe_window(lines)), widest, "{lines} lines");
        }
    }

    #[test]
    fn a_64_mib_region_allows_a_window_of_46_kib() {
        assert_eq!(Visit::safe_window((64 << 20) / 64), 723);
    }
}
