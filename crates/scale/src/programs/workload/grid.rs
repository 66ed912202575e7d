//! Ranks on a grid of two to four axes, and the neighbours of each rank.

use crate::model::operation::Rank;

/// The most axes that a grid has.
pub const AXES: usize = 4;

/// Positions at most one step away along each of four axes, the middle included.
const AROUND: u32 = 3_u32.pow(4);

/// A grid of ranks; the first axis runs fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    lengths: [u32; AXES],
    axes: usize,
    /// Whether the last rank along an axis neighbours the first.
    periodic: bool,
}

impl Grid {
    /// A grid of this many ranks and axes: each prime factor, the largest first, lengthens the shortest axis.
    #[must_use]
    pub fn new(ranks: u32, axes: usize, periodic: bool) -> Self {
        let axes = axes.clamp(1, AXES);
        let mut lengths = [1; AXES];
        for factor in factors(ranks.max(1)) {
            let shortest = lengths[..axes].iter_mut().min().expect("at least one axis");
            *shortest *= factor;
        }
        lengths[..axes].sort_unstable_by(|one, other| other.cmp(one));
        Self { lengths, axes, periodic }
    }

    /// The same grid, cut to at most this many ranks along an axis.
    #[must_use]
    pub fn cut(self, most: u32) -> Self {
        Self { lengths: self.lengths.map(|length| length.min(most)), ..self }
    }

    /// The number of ranks along each axis.
    #[must_use]
    pub fn lengths(&self) -> &[u32] {
        &self.lengths[..self.axes]
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.lengths.iter().product()
    }

    /// The rank at this distance along each axis, each at most one step; `None` beyond the edge, and `None` where that
    /// is the rank itself.
    pub(super) fn beside(&self, rank: Rank, steps: [i8; AXES]) -> Option<Rank> {
        let (mut stride, mut place) = (1, 0);
        for (length, step) in self.lengths.into_iter().zip(steps) {
            let here = rank.0 / stride % length;
            let there = match step {
                0 => here,
                1 if here + 1 < length => here + 1,
                -1 if here > 0 => here - 1,
                1 if self.periodic => 0,
                -1 if self.periodic => length - 1,
                _ => return None,
            };
            place += there * stride;
            stride *= length;
        }
        (place != rank.0).then_some(Rank(place))
    }

    /// All neighbours at most one step away along each axis, with the number of axes: 1 over a face, 2 over an edge, 3
    /// over a corner.
    pub(super) fn around(&self, rank: Rank) -> impl Iterator<Item = (Rank, usize)> {
        (0..AROUND).filter_map(move |number| {
            let mut steps = [0; AXES];
            let mut rest = number;
            for step in &mut steps {
                *step = [0, 1, -1][(rest % 3) as usize];
                rest /= 3;
            }
            let away = steps.iter().filter(|step| **step != 0).count();
            let outside = steps[self.axes..].iter().any(|step| *step != 0);
            if outside { None } else { self.beside(rank, steps).map(|rank| (rank, away)) }
        })
    }
}

/// Prime factors, the largest first.
fn factors(mut number: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut factor = 2;
    while factor * factor <= number {
        while number.is_multiple_of(factor) {
            found.push(factor);
            number /= factor;
        }
        factor += 1;
    }
    if number > 1 {
        found.push(number);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_all_its_ranks_and_is_near_a_cube() {
        assert_eq!(Grid::new(16_384, 3, true).lengths(), [32, 32, 16]);
        assert_eq!(Grid::new(16_000, 3, true).lengths(), [40, 20, 20]);
        assert_eq!(Grid::new(16_384, 4, true).lengths(), [16, 16, 8, 8]);
        for ranks in 1..200 {
            assert_eq!(Grid::new(ranks, 3, false).ranks(), ranks);
        }
    }

    #[test]
    fn in_the_middle_there_are_6_faces_12_edges_and_8_corners() {
        let grid = Grid::new(125, 3, false);
        let count = |rank, away| grid.around(Rank(rank)).filter(|(_, axes)| *axes == away).count();
        assert_eq!([count(62, 1), count(62, 2), count(62, 3)], [6, 12, 8]);
        assert_eq!([count(0, 1), count(0, 2), count(0, 3)], [3, 3, 1]);
    }

    #[test]
    fn whoever_is_beside_another_has_it_beside_itself() {
        for periodic in [false, true] {
            for ranks in [1, 2, 3, 8, 12, 17, 36] {
                let grid = Grid::new(ranks, 3, periodic);
                let pairs = || {
                    (0..ranks)
                        .flat_map(|rank| grid.around(Rank(rank)).map(move |(other, away)| (Rank(rank), other, away)))
                };
                let mut there: Vec<_> = pairs().collect();
                let mut back: Vec<_> = pairs().map(|(one, other, away)| (other, one, away)).collect();
                there.sort_unstable();
                back.sort_unstable();
                assert_eq!(there, back);
            }
        }
    }
}
