//! The cache of redirection maps, and what accesses cost with it [Gao13, 3.1.2].
//!
//! **Problem.** An access to a redirected line takes three accesses to the memory array: to the line itself, which
//! says that it is redirected; to the map; and to the line that serves it. **Idea.** The memory module keeps the maps
//! that it used last: then the access takes two. **Why this way.** The map that was not used for longest is replaced.
//! Hardware compares all entries at once; a scan does the same here.

use std::collections::VecDeque;

use super::{AccessCost, ClusterLine, ClusteredRegion};

/// How many accesses there were, by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// One access each: to lines that are not redirected.
    pub direct: u64,
    /// Two: the map was in the cache.
    pub cached: u64,
    /// Three.
    pub redirected: u64,
}

/// The regions whose maps are in the cache, the one that was used last first.
#[derive(Clone, Debug)]
pub struct RedirectionCache {
    regions: VecDeque<usize>,
    capacity: usize,
    counts: AccessCounts,
}

impl AccessCounts {
    /// The accesses to the memory array for all of them.
    #[must_use]
    pub const fn of_the_array(self) -> u64 {
        self.direct + 2 * self.cached + 3 * self.redirected
    }
}

impl RedirectionCache {
    /// A cache of so many maps; 0 for none.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { regions: VecDeque::with_capacity(capacity), capacity, counts: AccessCounts::default() }
    }

    /// An access to an address that has not failed, of the region of this number.
    pub fn access(&mut self, number: usize, region: &ClusteredRegion, address: ClusterLine) -> AccessCost {
        let place = self.regions.iter().position(|cached| *cached == number);
        let cost = region.access(address, place.is_some());
        match cost {
            AccessCost::Direct => self.counts.direct += 1,
            AccessCost::Cached => self.counts.cached += 1,
            AccessCost::Redirected => self.counts.redirected += 1,
        }
        if cost != AccessCost::Direct {
            place.map(|place| self.regions.remove(place));
            self.regions.truncate(self.capacity.saturating_sub(1));
            self.regions.push_front(number);
            self.regions.truncate(self.capacity);
        }
        cost
    }

    /// What accesses have cost so far.
    #[must_use]
    pub const fn counts(&self) -> AccessCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wear::RegionPages;

    fn line(place: u16) -> ClusterLine {
        ClusterLine::new(place, RegionPages::One).unwrap()
    }

    /// Regions of one page; in each, line 30 has failed: its address is redirected.
    fn regions(count: usize) -> Vec<ClusteredRegion> {
        let failed = |number| {
            let mut region = ClusteredRegion::new(2 * number, RegionPages::One);
            region.fail(line(30));
            region
        };
        (0..count).map(failed).collect()
    }

    #[test]
    fn the_map_that_was_not_used_for_longest_leaves_the_cache() {
        let (regions, mut cache) = (regions(3), RedirectionCache::new(2));
        let mut cost = |number: usize, place| cache.access(number, &regions[number], line(place)) as u8;
        assert_eq!(
            [(0, 30), (1, 30), (0, 30), (2, 30), (0, 30), (1, 30)].map(|(number, place)| cost(number, place)),
            [3, 3, 2, 3, 2, 3]
        );
        assert_eq!(cost(2, 31), 1, "not redirected, so no map is used");
        assert_eq!(cost(0, 30), 2);
        let counts = cache.counts();
        assert_eq!(counts, AccessCounts { direct: 1, cached: 3, redirected: 4 });
        assert_eq!(counts.of_the_array(), 1 + 6 + 12);
    }

    proptest! {
        #[test]
        fn an_access_is_cached_if_fewer_other_regions_were_redirected_since_than_the_cache_holds(
            capacity in 0_usize..5,
            accesses in prop::collection::vec((0_usize..6, prop::bool::ANY), 0..200),
        ) {
            let (regions, mut cache) = (regions(6), RedirectionCache::new(capacity));
            let mut before: Vec<usize> = Vec::new();
            for (number, is_redirected) in accesses {
                let place = if is_redirected { 30 } else { 31 };
                let cost = cache.access(number, &regions[number], line(place));
                if !is_redirected {
                    prop_assert_eq!(cost, AccessCost::Direct);
                    continue;
                }
                let since = before.iter().rposition(|earlier| *earlier == number).map(|last| {
                    let others: std::collections::BTreeSet<_> = before[last + 1..].iter().collect();
                    others.len()
                });
                let is_cached = since.is_some_and(|others| others < capacity);
                prop_assert_eq!(cost == AccessCost::Cached, is_cached);
                before.push(number);
            }
        }
    }
}
