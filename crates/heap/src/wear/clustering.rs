//! Hardware that moves failed lines to one end of a region: failure clustering [Gao13, 3.1.2, figure 1].
//!
//! **Problem.** With one line in ten failed at random, one page in a thousand is perfect, and runs of free lines are
//! short. **Idea.** The memory module redirects: the address of a failed line goes to a working line at the edge of its
//! region, and the address of that line fails instead. So failures gather at one end: the start of even regions, the
//! end of odd ones. **Why this way.** Software sees addresses only. All that it has to do is leave the failed addresses
//! alone, which it does anyway.
//!
//! The redirection map lies in the region itself, in the lines at the edge: the first failure takes one more line, or
//! two, or four. Failures below the map do no harm, as the map has error correction of its own.

use rampart_memory::{LINE_BYTES, LINES_PER_FRAME};

use super::FailedLines;

/// How many pages the hardware clusters together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionPages {
    /// One: failures gather within their page.
    One,
    /// Two, as [Gao13, 3.1.2] proposes: one page stays perfect while failures and the map fit the other.
    Two,
    /// Four [Gao13, 7.3].
    Four,
}

/// Whether the hardware clusters failed lines, and in which regions. Its name is how many pages a region has, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clustering {
    /// A line fails where it is.
    Off,
    /// Failures gather at an end of regions.
    Regions(RegionPages),
}

/// A line of a region, by its place from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterLine(u16);

/// The edge of a region at which failures gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Start,
    End,
}

/// What the memory module knows of one region.
#[derive(Clone, Debug)]
pub struct ClusteredRegion {
    size: RegionPages,
    edge: Edge,
    redirection: Option<Redirection>,
}

/// The redirection map and the boundary pointer. Here, places count from the edge at which failures gather.
#[derive(Clone, Debug)]
struct Redirection {
    /// The line that serves each place.
    serves: Vec<u16>,
    /// The places below this one have failed, or hold the map.
    boundary: u16,
}

/// How many lines a region reads to serve one access [Gao13, 3.1.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessCost {
    /// The line itself.
    Direct = 1,
    /// The line, which says that it is redirected, and the line that serves it: the map was in the cache of maps.
    Cached = 2,
    /// The line, the map, and the line that serves it.
    Redirected = 3,
}

impl RegionPages {
    /// How many pages.
    #[must_use]
    pub const fn pages(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// How many lines.
    #[must_use]
    pub const fn lines(self) -> u16 {
        match self {
            Self::One => 64,
            Self::Two => 128,
            Self::Four => 256,
        }
    }

    /// How many lines the redirection map and the boundary pointer take.
    #[must_use]
    pub const fn map_lines(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// The bits of the map, with an entry for each line that does not hold it, and of the boundary pointer.
    #[must_use]
    pub const fn map_bits(self) -> u32 {
        let entry = self.lines().ilog2();
        (self.lines() - self.map_lines() + 1) as u32 * entry
    }
}

const _: () = {
    assert!(RegionPages::One.lines() as u64 == LINES_PER_FRAME);
    assert!(RegionPages::Two.map_bits() == 889);
    assert!(RegionPages::One.map_bits() as u64 <= RegionPages::One.map_lines() as u64 * LINE_BYTES * 8);
    assert!(RegionPages::Two.map_bits() as u64 <= RegionPages::Two.map_lines() as u64 * LINE_BYTES * 8);
    assert!(RegionPages::Four.map_bits() as u64 <= RegionPages::Four.map_lines() as u64 * LINE_BYTES * 8);
};

impl Clustering {
    /// All.
    pub const ALL: [Self; 4] =
        [Self::Off, Self::Regions(RegionPages::One), Self::Regions(RegionPages::Two), Self::Regions(RegionPages::Four)];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "0",
            Self::Regions(RegionPages::One) => "1",
            Self::Regions(RegionPages::Two) => "2",
            Self::Regions(RegionPages::Four) => "4",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|clustering| clustering.name() == name)
    }

    /// The addresses that fail when these lines of the memory array have failed, page by page.
    #[must_use]
    pub fn addresses(self, lines: Vec<FailedLines>) -> Vec<FailedLines> {
        match self {
            Self::Off => lines,
            Self::Regions(size) => cluster_failures(&lines, size),
        }
    }
}

impl ClusterLine {
    /// A line of a region of this size; `None` if it has fewer.
    #[must_use]
    pub fn new(line: u16, size: RegionPages) -> Option<Self> {
        (line < size.lines()).then_some(Self(line))
    }

    /// The place, from 0.
    #[must_use]
    pub const fn place(self) -> u16 {
        self.0
    }
}

impl Edge {
    /// That of a region by its number.
    const fn of(region: usize) -> Self {
        if region.is_multiple_of(2) { Self::Start } else { Self::End }
    }

    /// Turns a place from the start into one from this edge, and back.
    const fn turn(self, place: u16, size: RegionPages) -> u16 {
        match self {
            Self::Start => place,
            Self::End => size.lines() - 1 - place,
        }
    }
}

impl ClusteredRegion {
    /// The region of this number, counted from the start of memory, without failures.
    #[must_use]
    pub const fn new(number: usize, size: RegionPages) -> Self {
        Self { size, edge: Edge::of(number), redirection: None }
    }

    /// A line of the memory array fails. Returns the addresses that software must vacate, in the order in which the
    /// module reports them: first the places of the redirection map, if this is the region's first failure, whose
    /// failures are "fake"; then the address at the boundary. Nothing if the line had failed, or holds the map.
    pub fn fail(&mut self, line: ClusterLine) -> Vec<ClusterLine> {
        let (edge, size) = (self.edge, self.size);
        let mut vacate = Vec::new();
        let redirection = self.redirection.get_or_insert_with(|| {
            vacate.extend(0..size.map_lines());
            Redirection { serves: (0..size.lines()).collect(), boundary: size.map_lines() }
        });
        vacate.extend(redirection.fail(edge.turn(line.0, size)));
        vacate.into_iter().map(|place| ClusterLine(edge.turn(place, size))).collect()
    }

    /// The line of the memory array that serves an address; `None` if the address has failed.
    #[must_use]
    pub fn serves(&self, address: ClusterLine) -> Option<ClusterLine> {
        let Some(redirection) = &self.redirection else { return Some(address) };
        let place = self.edge.turn(address.0, self.size);
        let line = *redirection.serves.get(usize::from(place))?;
        (place >= redirection.boundary).then(|| ClusterLine(self.edge.turn(line, self.size)))
    }

    /// The failed addresses of each page.
    #[must_use]
    pub fn failed(&self) -> Vec<FailedLines> {
        let count = self.redirection.as_ref().map_or(0, |redirection| redirection.boundary);
        gathered(self.size, self.edge, count)
    }

    /// What an access to an address costs that has not failed, when the region's map is in the cache, or is not.
    #[must_use]
    pub fn access(&self, address: ClusterLine, map_is_cached: bool) -> AccessCost {
        match (self.serves(address) == Some(address), map_is_cached) {
            (true, _) => AccessCost::Direct,
            (false, true) => AccessCost::Cached,
            (false, false) => AccessCost::Redirected,
        }
    }
}

impl Redirection {
    /// Redirects the place that a line serves to the line of the boundary, and advances the boundary; returns the place
    /// that has failed now.
    fn fail(&mut self, line: u16) -> Option<u16> {
        let (boundary, end) = (usize::from(self.boundary), self.serves.len());
        let served = (boundary..end).find(|place| self.serves[*place] == line)?;
        self.serves.swap(served, boundary);
        self.boundary += 1;
        u16::try_from(boundary).ok()
    }
}

/// The pages of a region in which `count` addresses at an edge have failed.
fn gathered(size: RegionPages, edge: Edge, count: u16) -> Vec<FailedLines> {
    let mut pages = vec![FailedLines::NONE; size.pages()];
    for place in 0..count {
        let line = u32::from(edge.turn(place, size));
        let page = &mut pages[(line / u64::BITS) as usize];
        *page = page.with(line % u64::BITS);
    }
    pages
}

/// The addresses that fail when these lines of the memory array have failed, page by page. The first page is the first
/// of an even region; a last region that is not whole is not clustered.
#[must_use]
pub fn cluster_failures(lines: &[FailedLines], size: RegionPages) -> Vec<FailedLines> {
    let mut addresses = Vec::with_capacity(lines.len());
    for (number, region) in lines.chunks(size.pages()).enumerate() {
        let failed: u32 = region.iter().map(|page| page.count()).sum();
        if region.len() < size.pages() || failed == 0 {
            addresses.extend_from_slice(region);
            continue;
        }
        let edge = Edge::of(number);
        let below_map: u32 = gathered(size, edge, size.map_lines())
            .iter()
            .zip(region)
            .map(|(map, page)| (map.bits() & page.bits()).count_ones())
            .sum();
        let count = u32::from(size.map_lines()) + failed - below_map;
        addresses.extend(gathered(size, edge, u16::try_from(count).expect("a region's lines")));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SIZES: [RegionPages; 3] = [RegionPages::One, RegionPages::Two, RegionPages::Four];

    fn line(place: u16) -> ClusterLine {
        ClusterLine(place)
    }

    fn places(lines: &[ClusterLine]) -> Vec<u16> {
        lines.iter().map(|line| line.place()).collect()
    }

    #[test]
    fn the_first_failure_takes_the_lines_of_the_map_too_and_further_ones_follow_the_boundary() {
        let mut even = ClusteredRegion::new(0, RegionPages::Two);
        assert_eq!(places(&even.fail(line(100))), [0, 1, 2]);
        assert_eq!(even.serves(line(100)), Some(line(2)), "the address of the failed line goes to the one at the edge");
        assert_eq!(places(&even.fail(line(50))), [3]);
        let mut odd = ClusteredRegion::new(1, RegionPages::Two);
        assert_eq!(places(&odd.fail(line(0))), [127, 126, 125]);
        assert_eq!(odd.serves(line(0)), Some(line(125)));
        let mut one = ClusteredRegion::new(4, RegionPages::One);
        assert_eq!(places(&one.fail(line(9))), [0, 1]);
    }

    #[test]
    fn a_line_that_serves_another_address_fails_in_its_turn() {
        let mut region = ClusteredRegion::new(0, RegionPages::Two);
        region.fail(line(100));
        assert_eq!(places(&region.fail(line(2))), [3], "it serves address 100");
        assert_eq!(region.serves(line(100)), Some(line(3)));
        assert!(region.fail(line(2)).is_empty() && region.fail(line(100)).is_empty(), "they had failed");
        assert!(region.fail(line(1)).is_empty(), "the map lies there");
    }

    #[test]
    fn an_access_costs_one_to_three() {
        let mut region = ClusteredRegion::new(0, RegionPages::One);
        assert_eq!(region.access(line(30), false), AccessCost::Direct);
        region.fail(line(30));
        assert_eq!(region.access(line(31), false), AccessCost::Direct);
        assert_eq!(region.access(line(30), false), AccessCost::Redirected);
        assert_eq!(region.access(line(30), true), AccessCost::Cached);
        assert_eq!([1, 2, 3], [AccessCost::Direct, AccessCost::Cached, AccessCost::Redirected].map(|cost| cost as u8));
    }

    #[test]
    fn two_pages_keep_one_perfect_until_half_of_their_lines_have_failed() {
        let lines = [FailedLines::from_bits(0x5555_5555_5555_5555), FailedLines::from_bits(0x8000_0000_0000_0001)];
        let [first, second] = cluster_failures(&lines, RegionPages::Two)[..] else { panic!("two pages") };
        // 34 lines have failed, one of them below the map of two.
        assert_eq!((first.count(), first.bits().trailing_ones()), (35, 35));
        assert!(second.is_perfect());
    }

    #[test]
    fn hardware_is_named_by_the_pages_of_its_regions_and_without_any_lines_fail_where_they_are() {
        let lines = vec![FailedLines::NONE.with(30), FailedLines::NONE, FailedLines::NONE, FailedLines::NONE];
        for clustering in Clustering::ALL {
            assert_eq!(Clustering::named(clustering.name()), Some(clustering));
        }
        let failed = |clustering: Clustering| clustering.addresses(lines.clone())[0].lines().collect::<Vec<_>>();
        assert_eq!(failed(Clustering::Off), [30]);
        // The line that failed, and those that the redirection map takes, gather at the start.
        assert_eq!(failed(Clustering::named("1").unwrap()), [0, 1]);
        assert_eq!(failed(Clustering::named("2").unwrap()), [0, 1, 2]);
        assert_eq!(["3", "8", "", "off"].map(Clustering::named), [None; 4]);
    }

    #[test]
    fn a_last_region_that_is_not_whole_keeps_its_failures_where_they_are() {
        let one = FailedLines::from_bits(1 << 20);
        for (size, count) in [(RegionPages::Two, 3), (RegionPages::Four, 6)] {
            let clustered = cluster_failures(&vec![one; count], size);
            assert_eq!(clustered.len(), count);
            let whole = count / size.pages() * size.pages();
            assert_ne!(clustered[0], one);
            assert!(clustered[whole..].iter().all(|page| *page == one), "{size:?}");
        }
    }

    proptest! {
        #[test]
        fn failures_one_by_one_gather_as_failures_at_once(
            size in prop::sample::select(&SIZES[..]),
            number in 0_usize..4,
            failing in prop::collection::vec(0_u16..256, 0..300),
        ) {
            let failing: Vec<_> = failing.into_iter().map(|place| line(place % size.lines())).collect();
            let mut region = ClusteredRegion::new(number, size);
            let mut vacated = Vec::new();
            for &one in &failing {
                vacated.extend(region.fail(one));
            }
            let failed: BTreeSet<_> = failing.into_iter().collect();
            // Each address that works is served by a line of its own that works and does not hold the map.
            let mut serving = BTreeSet::new();
            for address in (0..size.lines()).map(line) {
                match region.serves(address) {
                    Some(serves) => {
                        prop_assert!(!failed.contains(&serves) && serving.insert(serves));
                        prop_assert!(!vacated.contains(&address));
                    }
                    None => prop_assert_eq!(vacated.iter().filter(|vacated| **vacated == address).count(), 1),
                }
            }
            // And together they are what the module would have with all failures known at the start.
            let mut pages = vec![FailedLines::NONE; 4 * size.pages()];
            for one in &failed {
                let page = &mut pages[number * size.pages() + usize::from(one.place() / 64)];
                *page = page.with(u32::from(one.place() % 64));
            }
            let at_once = cluster_failures(&pages, size);
            prop_assert_eq!(&at_once[number * size.pages()..][..size.pages()], &region.failed()[..]);
        }
    }
}
