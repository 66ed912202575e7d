//! The findings of a test, written to the store before anything else happens to them.
//!
//! **Problem.** A bad frame that was reported and then forgotten, because the tester was killed or the disk was full,
//! would be used again. A durable write takes milliseconds, and a bad DRAM row can produce a thousand bad frames at
//! once. **Idea.** Testers only record findings in memory; a few times per second all new frames are written together,
//! and only then reported. **Why this way.** Every reported frame is on the disk, whatever happens next; and testing
//! goes on during the write.

use std::collections::BTreeSet;

use rampart_memory::fault_map::{Evidence, FailedFrame, FaultMap, MapOrigin, Retirement};
use rampart_memory::{FRAME_BYTES, Frame, Timestamp};

use crate::testing::bad_frame::BadFrame;

/// Where a mismatch was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MismatchLocation {
    /// In this frame.
    Frame(Frame),
    /// In this page of this process, by its number (address / 4096): its frame is unknown, so it cannot be stored.
    Page(Frame),
}

impl MismatchLocation {
    /// A page of memory at an address of this process.
    pub fn of_page(address: u64, page: u64) -> Self {
        let number = Frame::new(address / FRAME_BYTES + page);
        Self::Page(number.expect("addresses of a process are below 2^52"))
    }
}

/// All bad frames of one test.
pub struct Findings {
    frames: [FaultMap; 2],
    // Keyed by page number.
    pages: [FaultMap; 2],
    unreported: Vec<(MapOrigin, MismatchLocation)>,
    unwritten: BTreeSet<(MapOrigin, Frame)>,
}

/// Findings to write, and then to report.
#[derive(Debug, Default)]
pub struct UnreportedFindings {
    /// Frames that are new, or whose record has changed since the last write.
    pub facts: Vec<(MapOrigin, FailedFrame)>,
    /// Frames that were not reported yet.
    pub unreported: Vec<BadFrame>,
}

const ORIGINS: [MapOrigin; 2] = [MapOrigin::Real, MapOrigin::Emulated];

const fn index(origin: MapOrigin) -> usize {
    match origin {
        MapOrigin::Real => 0,
        MapOrigin::Emulated => 1,
    }
}

impl Default for Findings {
    /// No findings.
    fn default() -> Self {
        let maps = || ORIGINS.map(FaultMap::new);
        Self { frames: maps(), pages: maps(), unreported: Vec::new(), unwritten: BTreeSet::new() }
    }
}

impl Findings {
    /// Records a mismatch.
    pub fn record(&mut self, origin: MapOrigin, location: MismatchLocation, evidence: Evidence) {
        let (map, key) = self.map_of(origin, location);
        let is_new = map.get(key).is_none();
        map.record(key, evidence);
        self.note(origin, location, is_new);
    }

    /// Records an error that the hardware reported and could not correct; no more if the frame is bad already.
    pub fn uncorrected(&mut self, location: MismatchLocation, at: Timestamp) {
        let (map, key) = self.map_of(MapOrigin::Real, location);
        if map.get(key).is_none() {
            map.insert(FailedFrame::uncorrected(key, at));
            self.note(MapOrigin::Real, location, true);
        }
    }

    /// The map that has a location, and its number there.
    const fn map_of(&mut self, origin: MapOrigin, location: MismatchLocation) -> (&mut FaultMap, Frame) {
        match location {
            MismatchLocation::Frame(frame) => (&mut self.frames[index(origin)], frame),
            MismatchLocation::Page(page) => (&mut self.pages[index(origin)], page),
        }
    }

    /// Notes what is to be written and reported.
    fn note(&mut self, origin: MapOrigin, location: MismatchLocation, is_new: bool) {
        if let MismatchLocation::Frame(frame) = location {
            self.unwritten.insert((origin, frame));
        }
        if is_new {
            self.unreported.push((origin, location));
        }
    }

    /// Whether there are unreported frames.
    pub const fn has_unreported(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Takes the findings to write and report.
    pub fn take_news(&mut self) -> UnreportedFindings {
        let unwritten = std::mem::take(&mut self.unwritten).into_iter();
        let facts =
            unwritten.filter_map(|(origin, frame)| Some((origin, self.frames[index(origin)].get(frame)?.clone())));
        let facts = facts.collect();
        let unreported =
            std::mem::take(&mut self.unreported).into_iter().filter_map(|(origin, location)| match location {
                MismatchLocation::Frame(frame) => {
                    Some(BadFrame::of_frame(origin, self.frames[index(origin)].get(frame)?))
                }
                MismatchLocation::Page(page) => Some(BadFrame::of_page(origin, self.pages[index(origin)].get(page)?)),
            });
        UnreportedFindings { unreported: unreported.collect(), facts }
    }

    /// Records the retirement of a frame with a real error.
    pub fn retired(&mut self, frame: Frame, retirement: Retirement) {
        if self.frames[index(MapOrigin::Real)].set_retirement(frame, retirement).is_some() {
            self.unwritten.insert((MapOrigin::Real, frame));
        }
    }

    /// Whether a frame with a real error waits for its retirement.
    pub fn awaits_retirement(&self, frame: Frame) -> bool {
        self.frames[index(MapOrigin::Real)].get(frame).is_some_and(|failed| failed.retirement == Retirement::Pending)
    }

    /// The number of bad frames.
    pub fn count(&self) -> usize {
        self.frames.iter().chain(&self.pages).map(FaultMap::len).sum()
    }

    /// The bad frames, real ones first.
    pub fn bad_frames(&self) -> Vec<BadFrame> {
        let mut bad = Vec::new();
        for origin in ORIGINS {
            bad.extend(self.frames[index(origin)].iter().map(|failed| BadFrame::of_frame(origin, failed)));
            bad.extend(self.pages[index(origin)].iter().map(|failed| BadFrame::of_page(origin, failed)));
        }
        bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::LineData;

    fn evidence() -> Evidence {
        Evidence {
            at: Timestamp::from_micros(1),
            line: 3,
            expected: LineData::ZERO,
            found: LineData::ZERO.inverted(),
            reread: LineData::ZERO,
            test: String::new(),
            element: 0,
            background: String::new(),
        }
    }

    #[test]
    fn a_frame_is_told_once_and_its_counts_are_written_again_when_they_grow() {
        let frame = Frame::new(9).unwrap();
        let mut findings = Findings::default();
        findings.record(MapOrigin::Real, MismatchLocation::Frame(frame), evidence());
        let news = findings.take_news();
        assert_eq!((news.facts.len(), news.unreported.len()), (1, 1));
        for _ in 0..99 {
            findings.record(MapOrigin::Real, MismatchLocation::Frame(frame), evidence());
        }
        assert!(!findings.has_unreported());
        let news = findings.take_news();
        assert_eq!((news.facts[0].1.mismatches, news.unreported.len()), (100, 0));
        assert_eq!(findings.take_news().facts.len(), 0, "nothing is left to write");
    }

    #[test]
    fn real_and_emulated_failures_of_one_frame_are_two_facts() {
        let frame = Frame::new(9).unwrap();
        let mut findings = Findings::default();
        for origin in ORIGINS {
            findings.record(origin, MismatchLocation::Frame(frame), evidence());
        }
        assert_eq!(findings.take_news().facts.len(), 2);
        assert!(findings.awaits_retirement(frame));
        findings.retired(frame, Retirement::Offlined);
        assert!(!findings.awaits_retirement(frame));
        let bad = findings.bad_frames();
        let retirements: Vec<_> = bad.iter().map(|bad| bad.retirement.clone()).collect();
        assert_eq!(retirements, [Retirement::Offlined, Retirement::Pending]);
        assert_eq!(findings.take_news().facts, [(MapOrigin::Real, findings.frames[0].get(frame).unwrap().clone())]);
    }

    #[test]
    fn a_page_whose_frame_is_unknown_is_told_but_never_written() {
        let mut findings = Findings::default();
        findings.record(MapOrigin::Real, MismatchLocation::Page(Frame::new(9).unwrap()), evidence());
        let news = findings.take_news();
        assert!(news.facts.is_empty());
        assert_eq!((news.unreported[0].frame, news.unreported[0].page), (None, Some(9 * 4096)));
    }

    #[test]
    fn an_uncorrected_error_is_told_once_and_adds_nothing_to_a_bad_frame() {
        let (frame, page) = (Frame::new(9).unwrap(), Frame::new(20).unwrap());
        let now = Timestamp::from_micros(7);
        let mut findings = Findings::default();
        assert_eq!((findings.count(), findings.has_unreported()), (0, false));
        for location in [MismatchLocation::Frame(frame), MismatchLocation::Page(page)] {
            findings.uncorrected(location, now);
            findings.uncorrected(location, Timestamp::from_micros(8));
        }
        assert_eq!((findings.count(), findings.has_unreported()), (2, true));
        let news = findings.take_news();
        assert_eq!(news.facts, [(MapOrigin::Real, FailedFrame::uncorrected(frame, now))]);
        let told: Vec<_> = news.unreported.iter().map(|bad| (bad.frame, bad.page, bad.last_seen)).collect();
        assert_eq!(told, [(Some(frame), None, now), (None, Some(20 * 4096), now)]);
        findings.record(MapOrigin::Emulated, MismatchLocation::Frame(frame), evidence());
        assert_eq!(findings.count(), 3);
    }
}
