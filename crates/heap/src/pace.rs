//! When a full collection is due.
//!
//! **Problem.** A collection of young objects leaves old ones where they are. More and more of these die, and the
//! holes between them get too small for what the program allocates: each such collection yields less. A full one costs
//! more, and frees much more. **Idea.** Collections of young objects go on until both hold: little is usable, and the
//! last one cost at least as much for each usable byte as the last full one and those since have cost for each byte
//! that was used. From then on, another one would not lower the mean. **Why this way.** With the first rule alone, a
//! heap in which little is left after each collection gets a full one each time. With the second rule alone, a program
//! of which more objects survive for a while gets full collections that find little.
//!
//! Cost is counted in objects, not in time: with one thread, and without failures at run time, a program has the same
//! collections on every machine.

use crate::collection::Collection;
use crate::collector::TraceCounts;

/// Moving an object costs about as much as marking four: it is read, written, and all references to it are changed.
const MOVED: u64 = 4;

/// The fixed cost of a collection, in marked objects.
const COLLECTION: u64 = 1000;

/// What the last full collection and those since have cost and yielded. Of young objects, only those that came for lack
/// of memory count as cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectionPace {
    work: u64,
    /// The bytes that the program has used up between them.
    used: u64,
    /// What was free after the last collection, in bytes.
    free: u64,
}

/// Why a collection comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectionCause {
    /// The runtime wants it.
    Request,
    /// An allocation has failed. What was free was of no use to the program, and is taken to be of none now.
    OutOfMemory,
}

/// The limit below which bytes are little.
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
    /// Ends a collection: before it, `before` bytes were free, and now `free` are. Returns whether the next one should
    /// be a full one, if this was one of young objects.
    pub fn ends(
        &mut self,
        kind: Collection,
        cause: CollectionCause,
        traced: &TraceCounts,
        before: u64,
        free: u64,
        little: LittleBelow,
    ) -> bool {
        let work = traced.marked + MOVED * traced.moved + COLLECTION;
        let used = self.used + self.free.saturating_sub(before);
        self.free = free;
        match (kind, cause) {
            (Collection::Nursery, CollectionCause::Request) => {
                self.used = used;
                little.holds(free)
            }
            (Collection::Nursery, CollectionCause::OutOfMemory) => {
                let usable = free.saturating_sub(before);
                let is_dearer = u128::from(work) * u128::from(used) >= u128::from(self.work) * u128::from(usable);
                (self.work, self.used) = (self.work + work, used);
                is_dearer && little.holds(usable)
            }
            // The passes of one collection.
            (Collection::Full | Collection::Compacting, _) if used == 0 => {
                self.work += work;
                false
            }
            (Collection::Full | Collection::Compacting, _) => {
                (self.work, self.used) = (work, 0);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::CollectionCause::{OutOfMemory, Request};
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
                let is_due = pace.ends(kind, OutOfMemory, &marked(cost), 0, free, ANY);
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
            let best = (1..200).map(|nurseries| heap.cost_with(nurseries)).fold(f64::INFINITY, f64::min);
            let ratio = heap.cost_at_pace(3000) / best;
            prop_assert!((0.9..1.15).contains(&ratio), "{heap:?}: {ratio}");
        }
    }

    /// A pace after a full collection that marked so many objects and left so many bytes free, which the program then
    /// used.
    fn after_full(objects: u64, free: u64) -> CollectionPace {
        let mut pace = CollectionPace::default();
        pace.ends(Collection::Full, Request, &marked(objects), 0, free, ANY);
        pace
    }

    #[test]
    fn a_full_collection_is_due_once_little_is_usable_and_the_last_bytes_cost_as_much_as_the_mean() {
        let little = LittleBelow { capacity: 1000, share: 0.2 };
        for (objects, usable, is_due) in [(8000, 180, true), (8000, 200, false), (7999, 180, false)] {
            // 40,000 for 800 bytes: 50 for each.
            let mut pace = after_full(39_000, 800);
            assert_eq!(
                pace.ends(Collection::Nursery, OutOfMemory, &marked(objects), 0, usable, little),
                is_due,
                "{objects} {usable}"
            );
        }
    }

    #[test]
    fn to_move_costs_as_much_as_to_mark_four_and_a_collection_as_much_as_to_mark_a_thousand() {
        let is_dearer = |moved, full| {
            let traced = TraceCounts { moved, ..TraceCounts::default() };
            after_full(full, 100).ends(Collection::Nursery, OutOfMemory, &traced, 0, 100, ANY)
        };
        let cases = [(250, 1000), (250, 1001), (0, 0), (0, 1)];
        assert_eq!(cases.map(|(moved, full)| is_dearer(moved, full)), [true, false, true, false]);
    }

    #[test]
    fn what_was_free_when_memory_ran_out_is_not_usable() {
        let little = LittleBelow { capacity: 1000, share: 0.2 };
        let mut pace = after_full(0, 900);
        assert!(pace.ends(Collection::Nursery, OutOfMemory, &marked(1000), 300, 450, little), "150 are usable");
        assert!(!pace.ends(Collection::Nursery, Request, &marked(1000), 300, 450, little), "memory has not run out");
        assert!(pace.ends(Collection::Nursery, Request, &marked(1000), 300, 190, little), "little is free");
    }

    #[test]
    fn what_the_program_uses_between_all_collections_since_the_full_one_counts_and_what_was_before_does_not() {
        let last_is_dearer = |objects| {
            let mut pace = CollectionPace::default();
            pace.ends(Collection::Nursery, Request, &marked(50_000), 0, 500, ANY);
            pace.ends(Collection::Full, Request, &marked(9000), 100, 900, ANY);
            // 300 bytes are used, 100, and then 200, for 10,000 + 5000 in all: 25 for each byte.
            pace.ends(Collection::Nursery, OutOfMemory, &marked(4000), 600, 700, ANY);
            pace.ends(Collection::Nursery, Request, &marked(7000), 600, 600, ANY);
            pace.ends(Collection::Nursery, OutOfMemory, &marked(objects), 400, 600, ANY)
        };
        assert!(!last_is_dearer(3999) && last_is_dearer(4000));
    }

    #[test]
    fn passes_without_use_of_memory_between_them_are_one_collection() {
        let is_dearer = |objects, before_last_pass| {
            let mut pace = after_full(1000, 400);
            pace.ends(Collection::Compacting, OutOfMemory, &marked(0), 0, 100, ANY);
            pace.ends(Collection::Compacting, Request, &marked(0), before_last_pass, 200, ANY);
            pace.ends(Collection::Nursery, OutOfMemory, &marked(objects), 0, 200, ANY)
        };
        assert_eq!([999, 1000].map(|objects| is_dearer(objects, 100)), [false, true], "2000 for 200 bytes");
        assert!(is_dearer(0, 99), "1000 for 200 bytes");
    }
}
