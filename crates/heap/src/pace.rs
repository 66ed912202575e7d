//! When a full collection is due.
//!
//! **Problem.** A collection of young objects frees no old ones. As more of these die, and as the holes between them
//! are too small for what the program makes, each such collection leaves the program less. A full one costs more, but
//! makes much usable again. **Idea.** Collections of young objects go on until they leave little, and until the last
//! of them costs more, for each byte that the program gets from it, than all since the last full one together. From
//! then on another one would raise the mean, which is what the program pays. **Why this way.** With only the first
//! rule, heaps in which little is left after each collection are collected in full all the time. With only the second
//! one, a program that makes more long-lived objects for a while gets full collections that find nothing.
//!
//! Work is counted in objects, not in time: the same program has the same collections wherever it runs.

use crate::collection::Collection;
use crate::collector::TraceCounts;

/// To move an object costs about as much as to mark four: it is read, written, and all references to it are changed.
const MOVED: u64 = 4;

/// A collection costs about as much as marking so many objects, before it finds any.
const COLLECTION: u64 = 1000;

/// What the collections since the last full one have cost and brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectionPace {
    work: u64,
    /// The bytes that the program has used up between them.
    used: u64,
    /// What was free after the last collection, in bytes.
    free: u64,
    /// What was free, and of no use, when memory was out; 0 if it was not out since the last collection.
    unusable: u64,
}

/// How little of `capacity` is usable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LittleBelow {
    pub capacity: u64,
    pub share: f64,
}

impl LittleBelow {
    /// Whether so many bytes are little.
    #[expect(clippy::cast_precision_loss, reason = "a share of bytes")]
    pub fn holds(self, bytes: u64) -> bool {
        (bytes as f64) < self.capacity as f64 * self.share
    }
}

impl CollectionPace {
    /// The program gets no memory for an object, although so many bytes are free.
    pub const fn is_out(&mut self, free: u64) {
        self.unusable = free;
    }

    /// Ends a collection: before it, `before` bytes were free, and now `free` are. Returns whether the next one should
    /// be a full one, if this was one of young objects.
    pub fn ends(
        &mut self,
        kind: Collection,
        traced: &TraceCounts,
        before: u64,
        free: u64,
        little: LittleBelow,
    ) -> bool {
        let work = traced.marked + MOVED * traced.moved + COLLECTION;
        self.used += self.free.saturating_sub(before);
        let usable = free.saturating_sub(self.unusable);
        let is_dearer = u128::from(work) * u128::from(self.used) >= u128::from(self.work) * u128::from(usable);
        let since = if kind == Collection::Nursery { Self { free: 0, unusable: 0, ..*self } } else { Self::default() };
        *self = Self { work: since.work + work, free, ..since };
        is_dearer && little.holds(usable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that is usable is little.
    const ANY: LittleBelow = LittleBelow { capacity: u64::MAX, share: 1.0 };

    fn marked(marked: u64) -> TraceCounts {
        TraceCounts { marked, ..TraceCounts::default() }
    }

    /// A heap of which a full collection costs so much and makes so many bytes usable. Each collection of young objects
    /// costs `nursery`, and leaves less than the one before it: `kept` of a thousand bytes.
    #[derive(Clone, Copy, Debug)]
    struct AgingHeap {
        full: u64,
        nursery: u64,
        usable: u64,
        kept: u64,
    }

    impl AgingHeap {
        /// The work for each byte with so many collections of young objects for each full one.
        fn cost_with(self, nurseries: i32) -> f64 {
            let kept = self.kept as f64 / 1000.0;
            let used: f64 = (0..=nurseries).map(|number| self.usable as f64 * kept.powi(number)).sum();
            let work = self.full + COLLECTION + (self.nursery + COLLECTION) * nurseries as u64;
            work as f64 / used
        }

        /// The work for each byte if the pace says what is due, in `collections`.
        fn cost_at_pace(self, collections: usize) -> f64 {
            let (mut pace, mut is_full_due, mut free) = (CollectionPace::default(), true, 0);
            let (mut work, mut used) = (0, 0);
            for _ in 0..collections {
                let (kind, cost) =
                    if is_full_due { (Collection::Full, self.full) } else { (Collection::Nursery, self.nursery) };
                free = if is_full_due { self.usable } else { free * self.kept / 1000 };
                let is_due = pace.ends(kind, &marked(cost), 0, free, ANY);
                is_full_due = kind == Collection::Nursery && is_due;
                work += cost + COLLECTION;
                used += free;
            }
            work as f64 / used as f64
        }
    }

    proptest! {
        #[test]
        fn the_pace_costs_little_more_than_the_best_number_of_young_collections_for_each_full_one(
            full in 10_000_u64..1_000_000,
            nursery in 1000_u64..10_000,
            usable in 1_000_000_u64..100_000_000,
            kept in 600_u64..980,
        ) {
            let heap = AgingHeap { full, nursery, usable, kept };
            let best = (0..200).map(|nurseries| heap.cost_with(nurseries)).fold(f64::INFINITY, f64::min);
            let ratio = heap.cost_at_pace(3000) / best;
            prop_assert!((0.9..1.15).contains(&ratio), "{heap:?}: {ratio}");
        }
    }

    #[test]
    fn a_full_collection_is_due_once_little_is_usable_and_the_last_bytes_cost_more_than_the_mean() {
        let little = LittleBelow { capacity: 1000, share: 0.2 };
        // A full collection has made 800 bytes usable, and the program has used them.
        for (work, usable, is_due) in [(20_000, 199, true), (20_000, 200, false), (1000, 199, false)] {
            let mut pace = CollectionPace::default();
            pace.ends(Collection::Full, &marked(39_000), 0, 800, little);
            // 50 for each byte so far.
            assert_eq!(pace.ends(Collection::Nursery, &marked(work), 0, usable, little), is_due, "{work} {usable}");
        }
    }

    #[test]
    fn to_move_costs_as_much_as_to_mark_four_and_a_collection_as_much_as_to_mark_a_thousand() {
        let is_dearer = |moved, full| {
            let mut pace = CollectionPace::default();
            pace.ends(Collection::Full, &marked(full), 0, 100, ANY);
            let traced = TraceCounts { moved, ..TraceCounts::default() };
            pace.ends(Collection::Nursery, &traced, 0, 100, ANY)
        };
        assert_eq!(
            [(250, 1000), (250, 1001), (0, 0), (0, 1)].map(|(moved, full)| is_dearer(moved, full)),
            [true, false, true, false]
        );
    }

    #[test]
    fn what_was_free_when_memory_was_out_is_not_usable_and_is_forgotten_with_the_next_collection() {
        let little = LittleBelow { capacity: 1000, share: 0.2 };
        let mut pace = CollectionPace::default();
        pace.ends(Collection::Full, &marked(0), 0, 900, little);
        pace.is_out(300);
        assert!(pace.ends(Collection::Nursery, &marked(1000), 300, 450, little), "150 are usable");
        assert!(!pace.ends(Collection::Nursery, &marked(1000), 300, 450, little), "memory was not out");
        pace.is_out(300);
        pace.ends(Collection::Full, &marked(0), 300, 900, little);
        assert!(!pace.ends(Collection::Nursery, &marked(9000), 300, 450, little), "a full one forgets, too");
    }

    #[test]
    fn what_the_program_uses_between_all_collections_since_the_full_one_counts_and_what_was_before_does_not() {
        let last_is_dearer = |work| {
            let mut pace = CollectionPace::default();
            pace.ends(Collection::Nursery, &marked(50_000), 0, 500, ANY);
            pace.ends(Collection::Full, &marked(9000), 100, 900, ANY);
            // 400 bytes are used, and then 200, for 10,000 + 5000 in all: 25 for each byte.
            pace.ends(Collection::Nursery, &marked(4000), 500, 600, ANY);
            pace.ends(Collection::Nursery, &marked(work), 400, 200, ANY)
        };
        assert!(!last_is_dearer(3999) && last_is_dearer(4000));
    }
}
