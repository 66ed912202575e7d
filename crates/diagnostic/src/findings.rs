//! What a test found, kept before anything else happens to it.
//!
//! **Problem.** A bad frame that was reported and then forgotten, because the tester was killed or the disk was full, will be
//! used again. **Idea.** The first mismatch of a frame goes to the store before anyone hears of it; later ones only add to
//! counts, and are kept when the block is done. **Why this way.** One durable write a frame, not one a mismatch: a frame with a
//! million bad bits costs two.

use std::collections::BTreeSet;

use rampart_memory::Frame;
use rampart_memory::fault_map::{Evidence, FailedFrame, FaultMap, Origin, Retirement};
use rampart_store::TestEnd;

use crate::report::BadFrame;

/// Who keeps facts for good.
pub trait Keep {
    /// Keeps what this test saw of a frame; durable when it returns, or pending and tried again later.
    fn keep(&mut self, origin: Origin, failed: &FailedFrame);
    /// The same for many frames at once.
    fn keep_all(&mut self, failed: &[(Origin, &FailedFrame)]);
    /// Tries again, now and then, to keep what is pending.
    fn retry(&mut self);
    /// Keeps how the test ended. Returns how many facts could not be kept.
    fn finish(&mut self, end: TestEnd) -> usize;
}

/// Where a mismatch was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In this frame.
    Frame(Frame),
    /// In this page of this process, by its number (address / 4096): its frame is unknown, so nothing can be kept.
    Page(Frame),
}

/// All bad frames of one test.
pub struct Findings<'a> {
    keep: &'a mut (dyn Keep + Send),
    frames: [FaultMap; 2],
    // Keyed by page number.
    pages: [FaultMap; 2],
    unkept: BTreeSet<(Origin, Frame)>,
}

const ORIGINS: [Origin; 2] = [Origin::Real, Origin::Emulated];

const fn index(origin: Origin) -> usize {
    match origin {
        Origin::Real => 0,
        Origin::Emulated => 1,
    }
}

impl<'a> Findings<'a> {
    /// Nothing found yet.
    pub fn new(keep: &'a mut (dyn Keep + Send)) -> Self {
        let maps = || ORIGINS.map(FaultMap::new);
        Self { keep, frames: maps(), pages: maps(), unkept: BTreeSet::new() }
    }

    /// Notes a mismatch. Returns the frame if it is new in this test; it is kept then.
    pub fn record(&mut self, origin: Origin, place: Place, evidence: Evidence) -> Option<BadFrame> {
        match place {
            Place::Frame(frame) => {
                let map = &mut self.frames[index(origin)];
                let new = map.get(frame).is_none();
                let failed = map.record(frame, evidence);
                if !new {
                    self.unkept.insert((origin, frame));
                    return None;
                }
                self.keep.keep(origin, failed);
                Some(BadFrame::of_frame(origin, failed))
            }
            Place::Page(page) => {
                let map = &mut self.pages[index(origin)];
                let new = map.get(page).is_none();
                let failed = map.record(page, evidence);
                new.then(|| BadFrame::of_page(origin, failed))
            }
        }
    }

    /// Notes what became of a real bad frame.
    pub fn retired(&mut self, frame: Frame, retirement: Retirement) {
        if let Some(failed) = self.frames[index(Origin::Real)].set_retirement(frame, retirement) {
            self.keep.keep(Origin::Real, failed);
            self.unkept.remove(&(Origin::Real, frame));
        }
    }

    /// Whether a frame was found to be bad, really bad, and nothing became of it yet.
    pub fn awaits_retirement(&self, frame: Frame) -> bool {
        self.frames[index(Origin::Real)].get(frame).is_some_and(|failed| failed.retirement == Retirement::Pending)
    }

    /// Keeps the counts that have grown since.
    pub fn keep_all(&mut self) {
        let frames = &self.frames;
        let known = |&(origin, frame): &(Origin, Frame)| Some((origin, frames[index(origin)].get(frame)?));
        let grown: Vec<_> = self.unkept.iter().filter_map(known).collect();
        if !grown.is_empty() {
            self.keep.keep_all(&grown);
        }
        self.unkept.clear();
    }

    /// Tries again, now and then, to keep what is pending.
    pub fn retry(&mut self) {
        self.keep.retry();
    }

    /// How many bad frames there are.
    pub fn len(&self) -> usize {
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

    /// Keeps how the test ended. Returns how many facts could not be kept.
    pub fn finish(&mut self, end: TestEnd) -> usize {
        self.keep_all();
        self.keep.finish(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::{LineData, Timestamp};

    #[derive(Default)]
    struct Notebook(Vec<(Origin, Frame, u64)>);

    impl Keep for Notebook {
        fn keep(&mut self, origin: Origin, failed: &FailedFrame) {
            self.0.push((origin, failed.frame, failed.mismatches));
        }
        fn keep_all(&mut self, failed: &[(Origin, &FailedFrame)]) {
            failed.iter().for_each(|(origin, failed)| self.keep(*origin, failed));
        }
        fn retry(&mut self) {}
        fn finish(&mut self, _end: TestEnd) -> usize {
            0
        }
    }

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
    fn a_frame_is_kept_before_it_is_told_and_its_counts_later() {
        let mut notebook = Notebook::default();
        let frame = Frame::new(9).unwrap();
        let mut findings = Findings::new(&mut notebook);
        assert!(findings.record(Origin::Real, Place::Frame(frame), evidence()).is_some());
        for _ in 0..99 {
            assert!(findings.record(Origin::Real, Place::Frame(frame), evidence()).is_none());
        }
        findings.keep_all();
        let bad = findings.bad_frames();
        assert_eq!((bad.len(), bad[0].mismatches), (1, 100));
        assert_eq!(notebook.0, [(Origin::Real, frame, 1), (Origin::Real, frame, 100)]);
    }

    #[test]
    fn real_and_emulated_failures_of_one_frame_are_two_facts() {
        let mut notebook = Notebook::default();
        let frame = Frame::new(9).unwrap();
        let mut findings = Findings::new(&mut notebook);
        for origin in ORIGINS {
            findings.record(origin, Place::Frame(frame), evidence());
        }
        assert!(findings.awaits_retirement(frame));
        findings.retired(frame, Retirement::Offlined);
        assert!(!findings.awaits_retirement(frame));
        let bad = findings.bad_frames();
        assert_eq!(
            bad.iter().map(|b| b.retirement.clone()).collect::<Vec<_>>(),
            [Retirement::Offlined, Retirement::Pending]
        );
    }

    #[test]
    fn a_page_whose_frame_is_unknown_is_told_but_never_kept() {
        let mut notebook = Notebook::default();
        let mut findings = Findings::new(&mut notebook);
        let page = Place::Page(Frame::new(9).unwrap());
        let told = findings.record(Origin::Real, page, evidence()).unwrap();
        assert_eq!((told.frame, told.page), (None, Some(9 * 4096)));
        drop(findings);
        assert!(notebook.0.is_empty());
    }
}
