//! The findings of a test, kept before anything else happens to them.
//!
//! **Problem.** A bad frame that was reported and then forgotten, because the tester was killed or the disk was full,
//! will be used again. A durable write takes milliseconds, and a bad row can bring a thousand frames at once. **Idea.**
//! Testers only record their findings; a few times per second all new frames are written together, and only then
//! reported. **Why this way.** A reported frame is on the disk, whatever happens next; and testing goes on during the
//! write.

use std::collections::BTreeSet;

use rampart_memory::Frame;
use rampart_memory::fault_map::{Evidence, FailedFrame, FaultMap, MapOrigin, Retirement};

use crate::testing::bad_frame::BadFrame;

/// The place of a mismatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MismatchLocation {
    /// In this frame.
    Frame(Frame),
    /// In this page of this process, by its number (address / 4096): its frame is unknown, so nothing can be kept.
    Page(Frame),
}

/// All bad frames of one test.
pub struct Findings {
    frames: [FaultMap; 2],
    // Keyed by page number.
    pages: [FaultMap; 2],
    untold: Vec<(MapOrigin, MismatchLocation)>,
    unkept: BTreeSet<(MapOrigin, Frame)>,
}

/// Facts to write, and bad frames to report afterwards.
#[derive(Debug, Default)]
pub struct UnreportedFindings {
    /// Frames that are new, or with new facts since the last write.
    pub facts: Vec<(MapOrigin, FailedFrame)>,
    /// Frames that are not reported yet.
    pub untold: Vec<BadFrame>,
}

const ORIGINS: [MapOrigin; 2] = [MapOrigin::Real, MapOrigin::Emulated];

const fn index(origin: MapOrigin) -> usize {
    match origin {
        MapOrigin::Real => 0,
        MapOrigin::Emulated => 1,
    }
}

impl Default for Findings {
    /// Nothing found yet.
    fn default() -> Self {
        let maps = || ORIGINS.map(FaultMap::new);
        Self { frames: maps(), pages: maps(), untold: Vec::new(), unkept: BTreeSet::new() }
    }
}

impl Findings {
    /// Records a mismatch.
    pub fn record(&mut self, origin: MapOrigin, place: MismatchLocation, evidence: Evidence) {
        let (map, key) = match place {
            MismatchLocation::Frame(frame) => {
                self.unkept.insert((origin, frame));
                (&mut self.frames[index(origin)], frame)
            }
            MismatchLocation::Page(page) => (&mut self.pages[index(origin)], page),
        };
        if map.get(key).is_none() {
            self.untold.push((origin, place));
        }
        map.record(key, evidence);
    }

    /// Whether there are unreported frames.
    pub const fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Takes the facts to write and the frames to report.
    pub fn take_news(&mut self) -> UnreportedFindings {
        let unkept = std::mem::take(&mut self.unkept).into_iter();
        let facts = unkept.filter_map(|(origin, frame)| Some((origin, self.frames[index(origin)].get(frame)?.clone())));
        let facts = facts.collect();
        let untold = std::mem::take(&mut self.untold).into_iter().filter_map(|(origin, place)| match place {
            MismatchLocation::Frame(frame) => Some(BadFrame::of_frame(origin, self.frames[index(origin)].get(frame)?)),
            MismatchLocation::Page(page) => Some(BadFrame::of_page(origin, self.pages[index(origin)].get(page)?)),
        });
        UnreportedFindings { untold: untold.collect(), facts }
    }

    /// Records the result of a real bad frame's retirement.
    pub fn retired(&mut self, frame: Frame, retirement: Retirement) {
        if self.frames[index(MapOrigin::Real)].set_retirement(frame, retirement).is_some() {
            self.unkept.insert((MapOrigin::Real, frame));
        }
    }

    /// Whether a frame is really bad, and its retirement has not been tried.
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
    use rampart_memory::{LineData, Timestamp};

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
        assert_eq!((news.facts.len(), news.untold.len()), (1, 1));
        for _ in 0..99 {
            findings.record(MapOrigin::Real, MismatchLocation::Frame(frame), evidence());
        }
        assert!(!findings.has_untold());
        let news = findings.take_news();
        assert_eq!((news.facts[0].1.mismatches, news.untold.len()), (100, 0));
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
        assert_eq!((news.untold[0].frame, news.untold[0].page), (None, Some(9 * 4096)));
    }
}
