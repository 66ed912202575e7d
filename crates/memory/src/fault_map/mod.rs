//! The memory that is known to be bad, with the evidence.
//!
//! **Problem.** Tests, the kernel's error log and the page guard all condemn memory; allocators, the kernel and the
//! boot loader must learn of it once, with the reason. **Idea.** One map, frame by frame and line by line, that only
//! grows: a bad frame stays bad until a person says otherwise ([Rahman16, fig. 2]: no arrow leaves *failed*). **Why
//! this way.** The map keeps a bounded sample of evidence besides exact counts, so a frame with a million bad bits
//! costs no more than one with eight.

pub mod export;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::{Frame, FrameRange, LINES_PER_FRAME, LineBits, LineData, Timestamp};

/// Whether memory is bad, or a fault was emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapOrigin {
    /// The memory itself is bad.
    Real,
    /// A fault model stood between the tester and the memory. Never retired, never exported.
    Emulated,
}

/// The cause of a condemnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A march test read other data than it had written.
    MarchTest,
    /// A person condemned it.
    Operator,
    /// The guard of a program found a page in it beyond correction.
    Guard,
    /// The hardware reported an error in it that it could not correct, while it was tested.
    Hardware,
}

/// One mismatch in full, enough to repeat the read that found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// When it was read.
    pub at: Timestamp,
    /// The line in its frame, 0 to 63.
    pub line: u8,
    /// The written data.
    pub expected: LineData,
    /// The read data.
    pub found: LineData,
    /// The data of a second read, after the line was flushed from the caches.
    pub reread: LineData,
    /// The march test that ran, in its notation.
    pub test: String,
    /// The element of the test, from 0.
    pub element: u32,
    /// The data background, by name.
    pub background: String,
}

impl Evidence {
    /// The bits that were wrong at the first read or at the second.
    #[must_use]
    pub fn bits(&self) -> LineBits {
        self.expected.differs(&self.found).union(&self.expected.differs(&self.reread))
    }
}

/// The result of a bad frame's retirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "detail")]
pub enum Retirement {
    /// Nothing was done yet: the kernel may still hand the frame out.
    Pending,
    /// The kernel moved the frame's content and will not use the frame until the next boot.
    Offlined,
    /// The kernel refused, for this reason; the process that found the frame held it until it ended.
    Refused(String),
}

/// The kernel's present use of a frame, whatever its history.
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
    /// The state cannot be read here.
    Unknown,
}

impl FrameUse {
    /// Whether the kernel gives the frame to nobody.
    #[must_use]
    pub const fn is_out_of_use(self) -> bool {
        match self {
            Self::Retired | Self::Reserved | Self::BeyondMemory | Self::Offline => true,
            Self::InUse | Self::Unknown => false,
        }
    }
}

/// A bad frame with all known facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedFrame {
    /// The frame.
    pub frame: Frame,
    /// The first cause.
    pub cause: Cause,
    /// Bit `i` is set if line `i` failed.
    pub lines: u64,
    /// When it first failed.
    pub first_seen: Timestamp,
    /// When it last failed.
    pub last_seen: Timestamp,
    /// The number of mismatches seen in it.
    pub mismatches: u64,
    /// The first [`FailedFrame::EVIDENCE_KEPT`] of them.
    pub evidence: Vec<Evidence>,
    /// The result of its retirement.
    pub retirement: Retirement,
}

impl FailedFrame {
    /// The number of mismatches that are kept in full.
    pub const EVIDENCE_KEPT: usize = 8;

    /// A frame that a person condemns as a whole, without evidence.
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

    /// A frame in which a guard found a page beyond correction, at an unknown place.
    #[must_use]
    pub fn spoilt(frame: Frame, at: Timestamp) -> Self {
        Self { cause: Cause::Guard, ..Self::condemned(frame, at) }
    }

    /// A frame in which the hardware reported an error that it could not correct, at an unknown place.
    #[must_use]
    pub fn uncorrected(frame: Frame, at: Timestamp) -> Self {
        Self { cause: Cause::Hardware, ..Self::condemned(frame, at) }
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

/// All bad frames of one [`MapOrigin`]: real and emulated ones are never in one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultMap {
    origin: MapOrigin,
    frames: BTreeMap<Frame, FailedFrame>,
}

impl FaultMap {
    /// An empty map.
    #[must_use]
    pub const fn new(origin: MapOrigin) -> Self {
        Self { origin, frames: BTreeMap::new() }
    }

    /// Whether its frames are really bad or emulated.
    #[must_use]
    pub const fn origin(&self) -> MapOrigin {
        self.origin
    }

    /// Condemns a frame for a mismatch in it. Returns all known facts of the frame.
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

    /// Replaces the known facts of a frame by those of the store or of a person.
    pub fn insert(&mut self, failed: FailedFrame) {
        self.frames.insert(failed.frame, failed);
    }

    /// Records the result of a bad frame's retirement. Returns the result, or `None` if the frame is not bad.
    pub fn set_retirement(&mut self, frame: Frame, retirement: Retirement) -> Option<&FailedFrame> {
        let failed = self.frames.get_mut(&frame)?;
        failed.retirement = retirement;
        Some(failed)
    }

    /// Forgets a frame that a person declares good again. Returns its facts.
    pub fn forget(&mut self, frame: Frame) -> Option<FailedFrame> {
        self.frames.remove(&frame)
    }

    /// The facts of a bad frame.
    #[must_use]
    pub fn get(&self, frame: Frame) -> Option<&FailedFrame> {
        self.frames.get(&frame)
    }

    /// The bad frames, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &FailedFrame> {
        self.frames.values()
    }

    /// The number of bad frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the map has no frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The bad frames as the fewest ranges.
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
        let mut map = FaultMap::new(MapOrigin::Real);
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
        let mut map = FaultMap::new(MapOrigin::Real);
        let frame = Frame::new(7).unwrap();
        map.record(frame, evidence(0, 1));
        map.set_retirement(frame, Retirement::Offlined);
        map.record(frame, evidence(1, 2));
        assert_eq!(map.get(frame).unwrap().retirement, Retirement::Offlined);
        assert!(map.forget(frame).is_some());
        assert!(map.is_empty() && map.forget(frame).is_none());
    }
}
