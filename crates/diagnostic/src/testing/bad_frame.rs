//! A bad frame in reports and events.

use rampart_memory::fault_map::{Cause, Evidence, FailedFrame, MapOrigin, Retirement};
use rampart_memory::{Frame, LineBit, LineBits, Timestamp};
use serde::Serialize;

/// A bad frame, or a bad page whose frame is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct BadFrame {
    /// Whether the frame is really bad, or only an injected fault makes it look bad.
    pub origin: MapOrigin,
    /// The frame; `None` where frame numbers are unknown.
    pub frame: Option<Frame>,
    /// Physical address of the frame's first byte.
    pub address: Option<u64>,
    /// If the frame is unknown: the address of the page in the process that tested it.
    pub page: Option<u64>,
    /// The lines that failed, 0 to 63.
    pub lines: Vec<u32>,
    /// The wrong bits in the stored evidence, 0 to 511 in their line.
    pub bits: Vec<u16>,
    /// Why the frame is condemned.
    pub cause: Cause,
    /// The number of mismatches.
    pub mismatches: u64,
    /// When it first failed, in this test or one before.
    pub first_seen: Timestamp,
    /// When it last failed.
    pub last_seen: Timestamp,
    /// The state of its retirement.
    pub retirement: Retirement,
    /// The first mismatches in full.
    pub evidence: Vec<Evidence>,
}

impl BadFrame {
    /// Makes one from a frame of the fault map.
    #[must_use]
    pub fn of_frame(origin: MapOrigin, failed: &FailedFrame) -> Self {
        let bits = failed.evidence.iter().fold(LineBits::default(), |all, seen| all.union(&seen.bits()));
        Self {
            origin,
            frame: Some(failed.frame),
            address: Some(failed.frame.address()),
            page: None,
            lines: (0..64).filter(|line| failed.lines >> line & 1 == 1).collect(),
            bits: bits.iter().map(LineBit::index).collect(),
            cause: failed.cause,
            mismatches: failed.mismatches,
            first_seen: failed.first_seen,
            last_seen: failed.last_seen,
            retirement: failed.retirement.clone(),
            evidence: failed.evidence.clone(),
        }
    }

    /// Makes one from a page whose frame is unknown, in a map keyed by page number.
    #[must_use]
    pub fn of_page(origin: MapOrigin, failed: &FailedFrame) -> Self {
        let known = Self::of_frame(origin, failed);
        Self { frame: None, page: known.address, address: None, ..known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::LineData;

    #[test]
    fn it_names_the_lines_that_failed_and_the_bits_that_were_wrong() {
        let now = Timestamp::from_micros(1);
        let (frame, zero) = (Frame::new(9).unwrap(), LineData::ZERO);
        let wrong = |bit| Evidence {
            at: now,
            line: 3,
            expected: zero,
            found: zero.with_bit(LineBit::new(bit).unwrap(), true),
            reread: zero,
            test: String::new(),
            element: 0,
            background: String::new(),
        };
        let failed = FailedFrame {
            lines: 1 << 3 | 1 << 63,
            evidence: vec![wrong(5), wrong(511)],
            ..FailedFrame::condemned(frame, now)
        };
        let bad = BadFrame::of_frame(MapOrigin::Real, &failed);
        assert_eq!((bad.lines, bad.bits), (vec![3, 63], vec![5, 511]));
        assert_eq!((bad.frame, bad.address, bad.page), (Some(frame), Some(9 << 12), None));
        let bad = BadFrame::of_page(MapOrigin::Real, &failed);
        assert_eq!((bad.frame, bad.address, bad.page), (None, None, Some(9 << 12)));
    }
}
