//! Which memory is known to be bad, and how we know.
//!
//! **Problem.** Tests, the kernel's error log and (later) the page guard all condemn memory; allocators, the kernel and
//! the boot loader must all hear of it, once, with the reason. **Idea.** One map, frame by frame and line by line, that
//! only ever grows: a frame that failed stays failed until a person says otherwise ([Rahman16, fig. 2]:
//! no arrow leaves *failed*). **Why this way.** The map keeps a bounded sample of evidence
//! beside exact counts, so a frame with a million bad bits costs no more than one with eight.

pub mod export;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::{Frame, FrameRange, LINES_PER_FRAME, LineBits, LineData, Timestamp};

/// Whether memory failed, or was only made to look so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The memory itself is bad.
    Real,
    /// A fault model stood between the tester and the memory. Never retired, never exported.
    Emulated,
}

/// Who condemned a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A march test read what it had not written.
    MarchTest,
    /// A person said so.
    Operator,
    /// A page in it was changed beyond correction, as the guard of a program saw.
    Guard,
}

/// One mismatch, in full: enough to repeat the read that found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// When it was read.
    pub at: Timestamp,
    /// The line in its frame, 0 to 63.
    pub line: u8,
    /// What had been written.
    pub expected: LineData,
    /// What was read.
    pub found: LineData,
    /// What a second read gave, after the line was flushed from the caches.
    pub reread: LineData,
    /// The march test that ran, in its notation.
    pub test: String,
    /// Which of its elements, 0 first.
    pub element: u32,
    /// The background it wrote, by name.
    pub background: String,
}

impl Evidence {
    /// The bits that were wrong at the first read or at the second.
    #[must_use]
    pub fn bits(&self) -> LineBits {
        self.expected.differs(&self.found).union(&self.expected.differs(&self.reread))
    }
}

/// What became of a failed frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "detail")]
pub enum Retirement {
    /// Nothing was done yet: the kernel may still hand the frame out.
    Pending,
    /// The kernel moved what was there and will not use the frame until the next boot.
    Offlined,
    /// Could not be retired, for this reason; the process that found it held it until it ended.
    Refused(String),
}

/// What the kernel does with a frame at this moment, whatever became of it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameUse {
    /// It is retired.
    Retired,
    /// It was left out of memory at boot.
    Reserved,
    /// It lies beyond the memory of this machine.
    BeyondMemory,
    /// The kernel has the memory around it offline.
    Offline,
    /// The kernel may hand it out, or has done so.
    InUse,
    /// It cannot be told here.
    Unknown,
}

impl FrameUse {
    /// Whether nobody can be given the frame.
    #[must_use]
    pub const fn is_out_of_use(self) -> bool {
        match self {
            Self::Retired | Self::Reserved | Self::BeyondMemory | Self::Offline => true,
            Self::InUse | Self::Unknown => false,
        }
    }
}

/// A failed frame and all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedFrame {
    /// Which frame.
    pub frame: Frame,
    /// Who condemned it first.
    pub cause: Cause,
    /// Bit `i` is set if line `i` failed.
    pub lines: u64,
    /// When it first failed.
    pub first_seen: Timestamp,
    /// When it last failed.
    pub last_seen: Timestamp,
    /// How many mismatches were seen in it.
    pub mismatches: u64,
    /// The first [`FailedFrame::EVIDENCE_KEPT`] of them.
    pub evidence: Vec<Evidence>,
    /// What became of it.
    pub retirement: Retirement,
}

impl FailedFrame {
    /// How many mismatches are kept in full.
    pub const EVIDENCE_KEPT: usize = 8;

    /// A frame that a person condemns, whole, without evidence.
    #[must_use]
    pub const fn condemned(frame: Frame, at: Timestamp) -> Self {
        Self {
            frame,
            cause: Cause::Operator,
            lines: u64::MAX,
            first_seen: at,
            last_seen: at,
            mismatches: 0,
            evidence: Vec::new(),
            retirement: Retirement::Pending,
        }
    }

    /// A frame in which a guard found a page that was changed beyond correction; where in it is unknown.
    #[must_use]
    pub fn spoilt(frame: Frame, at: Timestamp) -> Self {
        Self { cause: Cause::Guard, ..Self::condemned(frame, at) }
    }

    fn observed(frame: Frame, evidence: Evidence) -> Self {
        let at = evidence.at;
        let mut failed = Self { lines: 0, ..Self::condemned(frame, at) };
        failed.cause = Cause::MarchTest;
        failed.add(evidence);
        failed
    }

    fn add(&mut self, evidence: Evidence) {
        assert!(u64::from(evidence.line) < LINES_PER_FRAME, "a line of a frame");
        self.lines |= 1 << evidence.line;
        self.first_seen = self.first_seen.min(evidence.at);
        self.last_seen = self.last_seen.max(evidence.at);
        self.mismatches += 1;
        if self.evidence.len() < Self::EVIDENCE_KEPT {
            self.evidence.push(evidence);
        }
    }
}

/// All failed frames of one [`Origin`]: real and emulated ones are never in one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultMap {
    origin: Origin,
    frames: BTreeMap<Frame, FailedFrame>,
}

impl FaultMap {
    /// An empty map.
    #[must_use]
    pub const fn new(origin: Origin) -> Self {
        Self { origin, frames: BTreeMap::new() }
    }

    /// Whether its frames are bad, or were only made to look so.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Condemns a frame for a mismatch read in it. Returns all that is now known of the frame.
    pub fn record(&mut self, frame: Frame, evidence: Evidence) -> &FailedFrame {
        match self.frames.entry(frame) {
            Entry::Occupied(entry) => {
                let failed = entry.into_mut();
                failed.add(evidence);
                failed
            }
            Entry::Vacant(entry) => entry.insert(FailedFrame::observed(frame, evidence)),
        }
    }

    /// Takes over what is known of a frame, from the store or from a person, in place of what was known here.
    pub fn insert(&mut self, failed: FailedFrame) {
        self.frames.insert(failed.frame, failed);
    }

    /// Notes what became of a failed frame. Returns it, or `None` if the frame is not failed.
    pub fn set_retirement(&mut self, frame: Frame, retirement: Retirement) -> Option<&FailedFrame> {
        let failed = self.frames.get_mut(&frame)?;
        failed.retirement = retirement;
        Some(failed)
    }

    /// Forgets a frame, because a person says it is good again. Returns what was known.
    pub fn forget(&mut self, frame: Frame) -> Option<FailedFrame> {
        self.frames.remove(&frame)
    }

    /// What is known of a frame, if it failed.
    #[must_use]
    pub fn get(&self, frame: Frame) -> Option<&FailedFrame> {
        self.frames.get(&frame)
    }

    /// The failed frames, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &FailedFrame> {
        self.frames.values()
    }

    /// How many frames failed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether none failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The failed frames as the fewest ranges.
    #[must_use]
    pub fn ranges(&self) -> Vec<FrameRange> {
        FrameRange::merge(self.frames.keys().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(line: u8, at: u64) -> Evidence {
        Evidence {
            at: Timestamp::from_micros(at),
            line,
            expected: LineData::ZERO,
            found: LineData([1, 0, 0, 0, 0, 0, 0, 0]),
            reread: LineData([2, 0, 0, 0, 0, 0, 0, 0]),
            test: "{⇕(w0); ⇑(r0)}".to_owned(),
            element: 1,
            background: "solid".to_owned(),
        }
    }

    #[test]
    fn a_frame_gathers_lines_counts_and_a_bounded_sample() {
        let mut map = FaultMap::new(Origin::Real);
        let frame = Frame::new(7).unwrap();
        for at in 0..100_u64 {
            map.record(frame, evidence(u8::try_from(at % 4).unwrap(), at));
        }
        let failed = map.get(frame).unwrap();
        assert_eq!(failed.lines, 0b1111);
        assert_eq!(failed.mismatches, 100);
        assert_eq!(failed.evidence.len(), FailedFrame::EVIDENCE_KEPT);
        assert_eq!((failed.first_seen.micros(), failed.last_seen.micros()), (0, 99));
        assert_eq!(failed.evidence[0].bits().count(), 2);
    }

    #[test]
    fn a_failed_frame_stays_failed_until_a_person_forgets_it() {
        let mut map = FaultMap::new(Origin::Real);
        let frame = Frame::new(7).unwrap();
        map.record(frame, evidence(0, 1));
        map.set_retirement(frame, Retirement::Offlined);
        map.record(frame, evidence(1, 2));
        assert_eq!(map.get(frame).unwrap().retirement, Retirement::Offlined);
        assert!(map.forget(frame).is_some());
        assert!(map.is_empty() && map.forget(frame).is_none());
    }
}
