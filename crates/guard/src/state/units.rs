//! Some of the units of a block.

use std::ops::{BitAnd, BitOr, BitOrAssign, Sub, SubAssign};

/// A set of units of one block, by their places in it, 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units(u64);

impl Units {
    /// The most units of a block.
    pub const MOST: u32 = u64::BITS;

    /// None.
    pub const NONE: Self = Self(0);

    /// `count` units from `first` on; none of them beyond [`Units::MOST`].
    #[must_use]
    pub const fn run(first: u32, count: u32) -> Self {
        assert!(first < Self::MOST && count <= Self::MOST - first, "a run of units is in a block");
        if count == 0 { Self::NONE } else { Self(u64::MAX >> (Self::MOST - count) << first) }
    }

    /// The number of units.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has all of the others.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// Runs of adjacent units: the place of the first, and the number; ascending.
    pub fn runs(self) -> impl Iterator<Item = (u32, u32)> {
        let mut rest = self;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let first = rest.0.trailing_zeros();
            let count = (rest.0 >> first).trailing_ones();
            rest -= Self::run(first, count);
            Some((first, count))
        })
    }
}

impl BitOr for Units {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Units {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Units {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Units {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl SubAssign for Units {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    fn set(units: Units) -> BTreeSet<u32> {
        units.runs().flat_map(|(first, count)| first..first + count).collect()
    }

    proptest! {
        #[test]
        fn sets_of_units_are_sets(
            one in proptest::collection::vec((0_u32..64, 0_u32..64), 0..6),
            other in proptest::collection::vec((0_u32..64, 0_u32..64), 0..6)
        ) {
            let [a, b] = [one, other].map(|runs| {
                runs.into_iter().fold(Units::NONE, |set, (first, count)| set | Units::run(first, count.min(64 - first)))
            });
            let (model, others) = (set(a), set(b));
            prop_assert_eq!(a.count() as usize, model.len());
            prop_assert_eq!(set(a | b), &model | &others);
            prop_assert_eq!(set(a & b), &model & &others);
            prop_assert_eq!(set(a - b), &model - &others);
            prop_assert_eq!(a.has(b), model.is_superset(&others));
            prop_assert_eq!(a.is_empty(), model.is_empty());
            let runs: Vec<_> = a.runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "runs do not touch: {runs:?}");
        }
    }
}
