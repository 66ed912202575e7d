//! What a test says when it ends.
//!
//! **Problem.** A verdict that can be misread is worse than none. **Idea.** One enum decides it, from counts; everything else
//! in the report explains it. `PASS` means that everything that was asked for was tested and nothing was found.
//! **Why this way.** The text and the JSON are two views of this one value, so they cannot disagree. The JSON keys are
//! documented in `docs/report-schema.md`; [`SCHEMA`] changes when one of them changes its meaning or goes.

use rampart_memory::fault_map::{Cause, Evidence, FailedFrame, Origin, Retirement};
use rampart_memory::{Bytes, Frame, LineBit, LineBits, Timestamp};
use serde::Serialize;

use crate::extent::Extent;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "rampart.test/1";

/// The outcome in a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that was asked for was tested; nothing was found.
    Pass,
    /// Bad frames were found.
    Fail,
    /// Nothing was found, but not all that was asked for was tested.
    Incomplete,
}

impl Verdict {
    /// The verdict, from what was found and what, if anything, kept the test from its end.
    #[must_use]
    pub const fn of(bad_frames: usize, shortfall: Option<&String>) -> Self {
        match (bad_frames, shortfall) {
            (1.., _) => Self::Fail,
            (0, Some(_)) => Self::Incomplete,
            (0, None) => Self::Pass,
        }
    }

    /// 0 pass, 1 bad frames found, 2 could not test what was asked for.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Incomplete => 2,
        }
    }
}

/// A test and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Rampart.
    pub version: &'static str,
    /// The outcome.
    pub verdict: Verdict,
    /// Why the test is incomplete, if it is (also beside bad frames).
    pub incomplete: Option<String>,
    /// Bad frames and pages found, real and emulated.
    pub bad_frames: Vec<BadFrame>,
    /// How much was tested, of what.
    pub extent: Extent,
    /// Different frames (pages, where frame numbers are unknown) that were tested whole at least once.
    pub frames_tested: u64,
    /// Whether frame numbers were known.
    pub frames_known: bool,
    /// Frames that were not tested, by reason.
    pub not_tested: Vec<NotTested>,
    /// The read of what had rested; `None` where `--retention 0s` left it out.
    pub delayed_read: Option<DelayedRead>,
    /// Memory tested, each pass counted, per second of testing, all testers together.
    pub bytes_per_second: f64,
    /// `bytes_per_second` over what this machine's write and read limits, measured in the same run on the same number of
    /// CPUs, would allow for the operations of this test one after another. Above 1 where reads and writes overlap. `None` if
    /// nothing was measured.
    pub fraction_of_limit: Option<f64>,
    /// The measured limits.
    pub limit: Option<Limits>,
    /// What ran.
    pub test: TestRan,
    /// What that test finds.
    pub coverage: Vec<Coverage>,
    /// The kernel's counts of memory errors during the test.
    pub kernel_errors: KernelErrors,
    /// Emulated faults, where `--inject` asked for some.
    pub emulation: Option<Emulation>,
    /// Facts that could not be written to the store yet; 0 unless the disk is full or gone.
    pub facts_not_stored: usize,
    /// When the test began.
    pub started: Timestamp,
    /// How long it took, claiming included, in seconds.
    pub seconds: f64,
    /// The most memory that the tool itself used beyond what it tested, in bytes.
    pub own_bytes: Option<Bytes>,
}

/// A bad frame, or a bad page whose frame is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct BadFrame {
    /// Whether the frame failed or was only made to look so.
    pub origin: Origin,
    /// The frame; `None` where frame numbers are unknown.
    pub frame: Option<Frame>,
    /// Physical address of the frame's first byte.
    pub address: Option<u64>,
    /// Where the frame is unknown: the address of the page in the process that tested it.
    pub page: Option<u64>,
    /// The lines that failed, 0 to 63.
    pub lines: Vec<u32>,
    /// The bits that were seen wrong in the evidence kept, 0 to 511 in their line.
    pub bits: Vec<u16>,
    /// Who condemned it.
    pub cause: Cause,
    /// How many mismatches were read.
    pub mismatches: u64,
    /// When it first failed, in this test or one before.
    pub first_seen: Timestamp,
    /// When it last failed.
    pub last_seen: Timestamp,
    /// What became of it.
    pub retirement: Retirement,
    /// The first mismatches in full.
    pub evidence: Vec<Evidence>,
}

impl BadFrame {
    /// A frame of the map.
    #[must_use]
    pub fn of_frame(origin: Origin, failed: &FailedFrame) -> Self {
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

    /// A page whose frame is unknown, kept in a map by the page's number.
    #[must_use]
    pub fn of_page(origin: Origin, failed: &FailedFrame) -> Self {
        let known = Self::of_frame(origin, failed);
        Self { frame: None, page: known.address, address: None, ..known }
    }
}

/// Frames that were not tested, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotTested {
    /// The reason.
    pub why: String,
    /// How many.
    pub frames: u64,
}

/// The read after a rest with which a test ends, for cells that lose their value slowly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayedRead {
    /// How long what was written rested at the least.
    pub delay_seconds: f64,
    /// Tested frames that programs wanted back before, or that had not rested when the test was stopped.
    pub frames_skipped: u64,
}

/// Bandwidth of this machine, all testing CPUs together, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Writing only.
    pub write: f64,
    /// Reading and comparing only.
    pub read: f64,
    /// Memory tested per second, if each operation of this test went at those rates, one after another.
    pub of_this_test: f64,
}

/// The test that ran.
#[derive(Clone, Debug, Serialize)]
pub struct TestRan {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its notation.
    pub notation: String,
    /// Half the number of patterns.
    pub fidelity: u32,
    /// Visiting orders.
    pub orders: Vec<String>,
    /// Operations on each line in one pass.
    pub operations_per_line: u64,
    /// Passes begun.
    pub passes: u32,
    /// CPUs that tested.
    pub threads: usize,
    /// Instruction set of the loops.
    pub engine: String,
    /// How writes reach the DRAM.
    pub method: String,
    /// Visits within which one order alone may blur which of two lines came first.
    pub window_lines: u64,
    /// Pairs of cells are tested inside blocks of this size, not across.
    pub block: Bytes,
    /// How frames were held in place.
    pub pinning: String,
    /// Share of sampled reads after a write pass that came at the speed of a cache, 0 to 1.
    pub cached_reads: f64,
}

/// How many faults of a kind the test provably finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// The field's short name for the kind.
    pub fault: String,
    /// What it is.
    pub meaning: &'static str,
    /// `between-lines`: the cells concerned are in different lines; `within-line`: in one.
    pub scope: &'static str,
    /// In percent.
    pub percent: f64,
    /// A condition on it, or what would find more.
    pub note: Option<&'static str>,
}

/// What the kernel counted while the test ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelErrors {
    /// New errors during the test.
    Counted {
        /// Corrected.
        corrected: u64,
        /// Detected, uncorrected.
        uncorrected: u64,
    },
    /// The kernel keeps no counts here.
    Absent(String),
}

/// What became of the faults that were planted.
#[derive(Clone, Debug, Serialize)]
pub struct Emulation {
    /// The notation that asked for them.
    pub spec: String,
    /// Planted in blocks that were tested to the end.
    pub planted: usize,
    /// Of these, how many the test promises to find, whatever the memory held.
    pub promised: usize,
    /// Of the planted, how many were found.
    pub found: usize,
    /// Promised and not found: an error of Rampart. Empty unless something is wrong.
    pub missed: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_never_hides_a_bad_frame_nor_a_shortfall() {
        let why = "stopped".to_owned();
        assert_eq!(Verdict::of(0, None), Verdict::Pass);
        assert_eq!(Verdict::of(0, Some(&why)), Verdict::Incomplete);
        assert_eq!(Verdict::of(1, Some(&why)), Verdict::Fail);
        assert_eq!(Verdict::of(1, None), Verdict::Fail);
        assert_eq!([Verdict::Pass, Verdict::Fail, Verdict::Incomplete].map(|v| v.exit_code()), [0, 1, 2]);
    }
}
