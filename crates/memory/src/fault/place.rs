//! Places injected faults in a test that goes region by region.
//!
//! **Problem.** A region is known only when it is tested, regions come in any order, and each must have the same faults
//! every time; but the faults of all regions must add up to the requested number. **Idea.** The regions' shares are
//! drawn once, at the start; the places in a region are drawn from the seed and the region's number alone, at each
//! request. **Why this way.** A million faults cost 16 MB at most, and places take no memory.
//!
//! No two faults touch the same line: otherwise one could hide another, and a test would wrongly count as having missed
//! it. If faults at random places and in named frames are combined, each kind stays in its own part of every page,
//! because neither knows where the other lies.

use std::collections::HashMap;
use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fault::draw::{Ground, draw};
use crate::fault::{FaultClass, InjectionSpec, PlacedFault};
use crate::{Frame, LINES_PER_FRAME};

/// Faults touch at most one in so many lines of a region, so that each finds a place, and pairs find a near one.
const SPARSENESS: u64 = 4;

/// Lines of a page for faults of named frames, if there are faults at random places too: enough for one of every kind.
const FOR_NAMED: Range<u64> = 40..LINES_PER_FRAME;

/// Faults and their places.
#[derive(Clone, Debug)]
pub struct Campaign {
    spec: InjectionSpec,
    region_lines: u64,
    total_lines: u64,
    /// The region of each fault at a random place; ascending.
    shares: Vec<(u64, FaultClass)>,
}

/// {faults} faults need {needed} lines to themselves and find {room}: plant fewer or test more memory
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct TooManyFaults {
    faults: usize,
    needed: u64,
    room: u64,
}

/// The purpose of a stream of random numbers: no two purposes share a stream.
#[derive(Clone, Copy)]
enum Purpose {
    Shares,
    Region(u64),
    Frame(Frame),
}

impl Campaign {
    /// Divides the faults among the regions of a test of `total_lines` lines, with `region_lines` lines per region; the
    /// last one may be shorter.
    ///
    /// # Errors
    /// If a region would have faults that touch more than a quarter of its lines. Faults of named frames always fit.
    pub fn new(spec: &InjectionSpec, total_lines: u64, region_lines: u64) -> Result<Self, TooManyFaults> {
        let mut campaign = Self { spec: spec.clone(), region_lines, total_lines, shares: Vec::new() };
        campaign.shares = campaign.divide()?;
        Ok(campaign)
    }

    /// The requested faults.
    #[must_use]
    pub const fn spec(&self) -> &InjectionSpec {
        &self.spec
    }

    /// The faults at random places of a region, from 0: the same each time.
    #[must_use]
    pub fn in_region(&self, region: u64) -> Vec<PlacedFault> {
        let first = self.shares.partition_point(|(share, _)| *share < region);
        let mut chance = self.chance(Purpose::Region(region));
        let in_page = if self.spec.in_frames().is_empty() { 0..LINES_PER_FRAME } else { 0..FOR_NAMED.start };
        let mut ground = Ground::new(0..self.lines_of(region), in_page);
        let classes = self.shares[first..].iter().take_while(|(share, _)| *share == region).map(|(_, class)| *class);
        classes.map(|class| draw(class, &self.spec, &mut ground, &mut chance)).collect()
    }

    /// The faults of named frames in a region with the pages `frames`, in this order: a frame has the same faults
    /// wherever it comes up.
    #[must_use]
    pub fn in_frames(&self, frames: &[Option<Frame>]) -> Vec<PlacedFault> {
        if self.spec.in_frames().is_empty() {
            return Vec::new();
        }
        (0..).zip(frames).filter_map(|(page, frame)| Some(self.in_page(page, (*frame)?))).flatten().collect()
    }

    fn in_page(&self, page: u64, frame: Frame) -> Vec<PlacedFault> {
        let of_frame = self.spec.in_frames().iter().filter(|(_, named)| *named == frame);
        let mut classes: Vec<_> = of_frame.map(|(class, _)| *class).collect();
        if classes.is_empty() {
            return Vec::new();
        }
        // Widest first: consecutive lines are easy to find while the page is empty.
        classes.sort_by_key(|class| std::cmp::Reverse(class.lines_touched()));
        let in_page = if self.spec.random().is_empty() { 0..LINES_PER_FRAME } else { FOR_NAMED };
        let start = page * LINES_PER_FRAME;
        let mut ground = Ground::new(start..start + LINES_PER_FRAME, in_page);
        let mut chance = self.chance(Purpose::Frame(frame));
        classes.into_iter().map(|class| draw(class, &self.spec, &mut ground, &mut chance)).collect()
    }

    /// The number of lines of a region; 0 for one outside the test.
    fn lines_of(&self, region: u64) -> u64 {
        let start = region.saturating_mul(self.region_lines);
        self.total_lines.saturating_sub(start).min(self.region_lines)
    }

    /// How many lines of a region faults may touch.
    fn room_in(&self, region: u64) -> u64 {
        let lines = self.lines_of(region);
        let usable = if self.spec.in_frames().is_empty() {
            lines
        } else {
            lines / LINES_PER_FRAME * FOR_NAMED.start + (lines % LINES_PER_FRAME).min(FOR_NAMED.start)
        };
        usable / SPARSENESS
    }

    fn regions(&self) -> u64 {
        if self.region_lines == 0 { 0 } else { self.total_lines.div_ceil(self.region_lines) }
    }

    /// Each fault falls into the region of a random line, or into the next region with room.
    fn divide(&self) -> Result<Vec<(u64, FaultClass)>, TooManyFaults> {
        let regions = self.regions();
        let mut chance = self.chance(Purpose::Shares);
        let mut taken = HashMap::<u64, u64>::new();
        let mut shares = Vec::new();
        for class in self.at_random() {
            let needed = class.lines_touched();
            let fits = |region: &u64| taken.get(region).copied().unwrap_or(0) + needed <= self.room_in(*region);
            let wanted = if regions == 0 { 0 } else { chance.random_range(0..self.total_lines) / self.region_lines };
            let found = (wanted..regions).chain(0..wanted).find(fits);
            let region = found.ok_or_else(|| self.too_many())?;
            *taken.entry(region).or_default() += needed;
            shares.push((region, class));
        }
        shares.sort_unstable();
        Ok(shares)
    }

    /// The class of each fault at a random place.
    fn at_random(&self) -> impl Iterator<Item = FaultClass> + '_ {
        self.spec.random().iter().flat_map(|&(class, count)| (0..count).map(move |_| class))
    }

    fn too_many(&self) -> TooManyFaults {
        TooManyFaults {
            faults: self.at_random().count(),
            needed: self.at_random().map(FaultClass::lines_touched).sum(),
            room: (0..self.regions()).map(|region| self.room_in(region)).sum(),
        }
    }

    fn chance(&self, purpose: Purpose) -> ChaCha8Rng {
        let (purpose, number) = match purpose {
            Purpose::Shares => (0, 0),
            Purpose::Region(region) => (1, region),
            Purpose::Frame(frame) => (2, frame.number()),
        };
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([self.spec.seed(), purpose, number]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

#[cfg(test)]
mod tests;
