//! The report of a test.
//!
//! **Problem.** A verdict that can be misread is worse than none. **Idea.** One enum, computed from counts, is the
//! verdict; everything else in the report explains it. `PASS` means that the whole request was tested and no bad frame
//! was found. **Why this way.** The text and the JSON are two views of this one value, so they cannot disagree.
//! `docs/report-schema.md` documents the JSON keys; [`SCHEMA`] changes when a key changes its meaning or is removed.

use rampart_memory::{Bytes, FrameRange, Timestamp};
use serde::Serialize;

use super::chosen::dimm::DimmChoice;
use super::extent::Extent;
use super::zone_extent::ZoneExtent;
pub use crate::machine::KernelErrors;
pub use crate::testing::bad_frame::BadFrame;
pub use crate::testing::verdict::TestVerdict;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "rampart.test/2";

/// A test and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Rampart.
    pub version: &'static str,
    /// The outcome.
    pub verdict: TestVerdict,
    /// Why the test is incomplete, if it is (also if bad frames were found).
    pub incomplete: Option<String>,
    /// Bad frames and pages found, real and emulated.
    pub bad_frames: Vec<BadFrame>,
    /// The tested part of the request.
    pub extent: Extent,
    /// How much of the zones was tested, on a machine with one that only programs get (`ZONE_MOVABLE`); else empty.
    /// Without the privilege to read frame numbers, nothing of them counts as tested.
    pub zones: Vec<ZoneExtent>,
    /// The frames that were chosen, if the kernel module handed them over.
    pub chosen: Option<ChosenFrames>,
    /// Different frames (pages, where frame numbers are unknown) that were tested completely at least once.
    pub frames_tested: u64,
    /// Whether frame numbers were known.
    pub frames_known: bool,
    /// Frames that were not tested, by reason.
    pub not_tested: Vec<NotTested>,
    /// The delayed read; `None` if `--retention 0s` disabled it.
    pub delayed_read: Option<DelayedRead>,
    /// Memory tested, each pass counted, per second of testing, all testers together.
    pub bytes_per_second: f64,
    /// `bytes_per_second` divided by `limit.of_this_test`: the rate that this machine's write and read limits,
    /// measured in the same run on the same number of CPUs, allow if the operations of this test run one after another.
    /// Above 1 where reads and writes overlap. `None` if nothing was measured.
    pub fraction_of_limit: Option<f64>,
    /// The measured limits.
    pub limit: Option<BandwidthLimits>,
    /// The test that ran.
    pub test: TestRan,
    /// The faults that this test finds.
    pub coverage: Vec<Coverage>,
    /// The kernel's counts of memory errors during the test.
    pub kernel_errors: KernelErrors,
    /// The injected faults, if `--inject` was given.
    pub emulation: Option<Emulation>,
    /// Facts that could not be written to the store yet; 0 unless the disk is full or gone.
    pub facts_not_stored: usize,
    /// When the test began.
    pub started: Timestamp,
    /// How long it took, claiming included, in seconds.
    pub seconds: f64,
    /// The maximum memory use of the tool itself, beyond the tested memory, in bytes.
    pub own_bytes: Option<Bytes>,
}

/// Frames that were tested by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChosenFrames {
    /// The ranges, as far as they are memory that is online.
    pub ranges: Vec<FrameRange>,
    /// The DIMM whose frames were chosen, if one was.
    pub dimm: Option<DimmChoice>,
    /// Whether frames in use were tested too.
    pub used: bool,
    /// Frames whose content was moved elsewhere, each pass counted.
    pub moved: u64,
    /// Frames that the kernel took back before their test ended, counted at each attempt.
    pub lost: u64,
}

/// Frames that were not tested, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotTested {
    /// The reason.
    pub why: String,
    /// How many.
    pub frames: u64,
}

/// The delayed read at the end of a test, for cells that lose their value slowly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayedRead {
    /// The minimum time between the last write and the read.
    pub delay_seconds: f64,
    /// Tested frames without a delayed read: programs needed them back first, or the test was stopped first.
    pub frames_skipped: u64,
}

/// Bandwidth of this machine, all testing CPUs together, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BandwidthLimits {
    /// Writing only.
    pub write: f64,
    /// Reading and comparing only.
    pub read: f64,
    /// Memory tested per second, if the operations of this test ran at those rates one after another.
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
    /// Address sequences.
    pub sequences: Vec<String>,
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
    /// The reorder window, in lines: within it, one address sequence alone does not determine which of two lines is
    /// visited first.
    pub window_lines: u64,
    /// The block size: pairs of cells are tested within a block, not across blocks.
    pub block: Bytes,
    /// How frames were held in place.
    pub pinning: String,
    /// The fraction of sampled reads after a write pass that were as fast as a cache, 0 to 1.
    pub cached_reads: f64,
}

/// The fraction of the faults of one kind that the test provably finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// The field's short name for the kind.
    pub fault: String,
    /// A description of the kind.
    pub meaning: &'static str,
    /// `between-lines`: the cells of the fault are in different lines; `within-line`: in one line.
    pub scope: &'static str,
    /// In percent.
    pub percent: f64,
    /// A condition on the percentage, or a way to find more.
    pub note: Option<&'static str>,
}

/// The results for the injected faults.
#[derive(Clone, Debug, Serialize)]
pub struct Emulation {
    /// The value of `--inject`.
    pub spec: String,
    /// Faults injected into blocks that were tested completely.
    pub injected: usize,
    /// Of these, the faults within the test's detection guarantee, whatever the memory held.
    pub guaranteed: usize,
    /// Of the injected faults, the faults that were found.
    pub found: usize,
    /// Guaranteed but not found: a bug in Rampart. Normally empty.
    pub missed: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_never_hides_a_bad_frame_nor_a_shortfall() {
        let why = "stopped".to_owned();
        assert_eq!(TestVerdict::of(0, None), TestVerdict::Pass);
        assert_eq!(TestVerdict::of(0, Some(&why)), TestVerdict::Incomplete);
        assert_eq!(TestVerdict::of(1, Some(&why)), TestVerdict::Fail);
        assert_eq!(TestVerdict::of(1, None), TestVerdict::Fail);
        assert_eq!([TestVerdict::Pass, TestVerdict::Fail, TestVerdict::Incomplete].map(|v| v.exit_code()), [0, 1, 2]);
    }
}
