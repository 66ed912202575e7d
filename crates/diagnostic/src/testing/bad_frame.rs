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
