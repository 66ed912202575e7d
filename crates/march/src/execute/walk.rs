//! The position of a sweep in the visiting order, and the lines at positions.
//!
//! **Problem.** A sweep uses three lines at once: the one it visits, one some visits ahead that it prefetches, and one
//! some visits behind that it flushes; each may be in another column or page. **Idea.** Keep positions, 0 to the number
//! of lines; a walk gives the lines that follow from a position at a constant stride. **Why this way.** Positions can
//! be added and compared, and there is no second state to keep consistent.

use rampart_memory::RegionLine;

use super::region::Leg;
use crate::{Direction, Visit};

/// The lines of a region in the order in which one element visits them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    visit: Visit,
    lines: u64,
    stride: u64,
    descending: bool,
}

impl Walk {
    /// The walk over a region of `lines` that `visit` was made for.
    pub(super) fn new(visit: Visit, lines: u64, direction: Direction) -> Self {
        let stride = visit.columns().next().expect("a region has lines").stride;
        Self { visit, lines, stride, descending: direction == Direction::Down }
    }

    /// Whether neighbours are visited at different times: prefetchers, which fetch neighbours, then fetch lines again
    /// that were visited long ago.
    pub(super) const fn is_strided(&self) -> bool {
        self.stride > 1
    }

    /// The position of a line, counted from 0.
    pub(super) fn position(&self, line: RegionLine) -> u64 {
        let ascending = self.visit.position(line);
        if self.descending { self.lines - 1 - ascending } else { ascending }
    }

    /// The lines from a position to the end of its column.
    pub(super) fn leg(&self, position: u64) -> Leg {
        assert!(position < self.lines, "position {position} is one of the {} lines", self.lines);
        let ascending = if self.descending { self.lines - 1 - position } else { position };
        // The first columns have one line more, if the lines do not divide evenly into rows.
        let (rows, longer) = (self.lines / self.stride, self.lines % self.stride);
        let (column, row, rows) = if ascending < longer * (rows + 1) {
            (ascending / (rows + 1), ascending % (rows + 1), rows + 1)
        } else {
            let rest = ascending - longer * (rows + 1);
            (longer + rest / rows, rest % rows, rows)
        };
        let line = RegionLine(column + row * self.stride);
        let stride = i64::try_from(self.stride).expect("a stride is less than the region");
        if self.descending {
            Leg { line, stride: -stride, count: row + 1 }
        } else {
            Leg { line, stride, count: rows - row }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AddressSequence;
    use crate::order::tests::visited;
    use proptest::prelude::*;

    #[test]
    fn only_neighbours_that_are_visited_in_turn_are_not_strided() {
        let is_strided = |order, lines| Walk::new(Visit::new(order, lines, 3), lines, Direction::Down).is_strided();
        assert_eq!([1, 2, 50].map(|lines| is_strided(AddressSequence::Sequential, lines)), [false; 3]);
        assert_eq!([1, 2, 50].map(|lines| is_strided(AddressSequence::Strided, lines)), [false, true, true]);
    }

    proptest! {
        #[test]
        fn a_walk_is_the_columns_and_a_descending_one_their_reverse(lines in 1_u64..2000, window in 0_u64..80) {
            for order in [AddressSequence::Sequential, AddressSequence::Strided] {
                let visit = Visit::new(order, lines, window);
                let mut expected = visited(visit);
                for direction in [Direction::Up, Direction::Down] {
                    let walk = Walk::new(visit, lines, direction);
                    let mut seen = Vec::new();
                    let mut legs = 0;
                    while seen.len() < expected.len() {
                        let leg = walk.leg(seen.len() as u64);
                        legs += 1;
                        let rest = (0..leg.count).map(|i| leg.line.0.wrapping_add_signed(leg.stride * i.cast_signed()));
                        seen.extend(rest);
                    }
                    prop_assert_eq!(&seen, &expected);
                    prop_assert_eq!(legs, visit.columns().count());
                    for (position, &line) in seen.iter().enumerate() {
                        prop_assert_eq!(walk.position(RegionLine(line)), position as u64);
                        prop_assert_eq!(walk.leg(position as u64).line, RegionLine(line));
                    }
                    expected.reverse();
                }
            }
        }
    }
}
