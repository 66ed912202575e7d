//! The report of a test.
//!
//! **Problem.** A verdict that can be misread is worse than none. **Idea.** One enum holds it, computed from counts;
//! everything else in the report explains it. `PASS` means that the whole request was tested and nothing was found.
//! **Why this way.** The text and the JSON are two views of this one value, so they cannot disagree.
//! `docs/report-schema.md` documents the JSON keys; [`SCHEMA`] changes when a key changes its meaning or goes away.

use rampart_memory::{Bytes, Timestamp};
use serde::Serialize;

use super::extent::Extent;
pub use crate::machine::KernelErrors;
pub use crate::testing::bad_frame::BadFrame;
pub use crate::testing::verdict::TestVerdict;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "rampart.test/1";

/// A test and its outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Rampart.
    pub version: &'static str,
    /// The verdict.
    pub verdict: TestVerdict,
    /// Why the test is incomplete, if it is (also with bad frames).
    pub incomplete: Option<String>,
    /// Bad frames and pages found, real and emulated.
    pub bad_frames: Vec<BadFrame>,
    /// The tested part of the request.
    pub extent: Extent,
    /// Different frames (pages, where frame numbers are unknown) that were tested whole at least once.
    pub frames_tested: u64,
    /// Whether frame numbers were known.
    pub frames_known: bool,
    /// Frames that were not tested, by reason.
    pub not_tested: Vec<NotTested>,
    /// The delayed read; `None` with `--retention 0s`.
    pub delayed_read: Option<DelayedRead>,
    /// Memory tested per second of testing by all testers, each pass counted.
    pub bytes_per_second: f64,
    /// `bytes_per_second` over the rate that this machine's write and read limits, measured in the same run on the same
    /// number of CPUs, would allow for the operations of this test one after another. Above 1 where reads and writes
    /// overlap. `None` without a measurement.
    pub fraction_of_limit: Option<f64>,
    /// The measured limits.
    pub limit: Option<BandwidthLimits>,
    /// What ran.
    pub test: TestRan,
    /// The coverage of that test.
    pub coverage: Vec<Coverage>,
    /// The kernel's counts of memory errors during the test.
    pub kernel_errors: KernelErrors,
    /// Emulated faults, with `--inject`.
    pub emulation: Option<Emulation>,
    /// Facts that could not be written to the store yet; 0 unless the disk is full or gone.
    pub facts_not_stored: usize,
    /// When the test began.
    pub started: Timestamp,
    /// How long it took, claiming included, in seconds.
    pub seconds: f64,
    /// The most memory that the tool itself used besides tested memory, in bytes.
    pub own_bytes: Option<Bytes>,
}

/// Frames that were not tested, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotTested {
    /// The reason.
    pub why: String,
    /// The number of frames.
    pub frames: u64,
}

/// The delayed read at the end of a test, for cells that lose their value slowly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayedRead {
    /// The minimum rest.
    pub delay_seconds: f64,
    /// Tested frames that programs needed before it, or that had not rested when the test was stopped.
    pub frames_skipped: u64,
}

/// Bandwidth of this machine, all testing CPUs together, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BandwidthLimits {
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
    /// Address sequences.
    pub orders: Vec<String>,
    /// Operations on each line in one pass.
    pub operations_per_line: u64,
    /// Passes begun.
    pub passes: u32,
    /// CPUs that tested.
    pub threads: usize,
    /// Instruction set of the loops.
    pub engine: String,
    /// The method by which writes reach the DRAM.
    pub method: String,
    /// Visits within which one address sequence alone may reorder two lines.
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
    /// Its meaning.
    pub meaning: &'static str,
    /// `between-lines`: the cells concerned are in different lines; `within-line`: in one.
    pub scope: &'static str,
    /// In per cent.
    pub percent: f64,
    /// A condition on it, or a test that would find more.
    pub note: Option<&'static str>,
}

/// The results for injected faults.
#[derive(Clone, Debug, Serialize)]
pub struct Emulation {
    /// The notation of the faults.
    pub spec: String,
    /// Injected in blocks that were tested to the end.
    pub planted: usize,
    /// Of these, how many the test guarantees to find, whatever the content of the memory.
    pub promised: usize,
    /// Of the injected faults, how many were found.
    pub found: usize,
    /// Guaranteed and not found: an error of Rampart. Empty unless something is wrong.
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
