//! What a test says when it ends.
//!
//! **Problem.** A verdict that can be misread is worse than none. **Idea.** One enum decides it, from counts;
//! everything else in the report explains it. `PASS` means that everything that was asked for was tested and nothing
//! was found. **Why this way.** The text and the JSON are two views of this one value, so they cannot disagree. The
//! JSON keys are documented in `docs/report-schema.md`; [`SCHEMA`] changes when one of them changes its meaning or
//! goes.

use rampart_memory::{Bytes, Timestamp};
use serde::Serialize;

use super::extent::Extent;
pub use crate::machine::KernelErrors;
pub use crate::testing::bad_frame::BadFrame;
pub use crate::testing::verdict::Verdict;

/// Name and version of the JSON schema.
pub const SCHEMA: &str = "rampart.test/1";

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
    /// `bytes_per_second` over what this machine's write and read limits, measured in the same run on the same number
    /// of CPUs, would allow for the operations of this test one after another. Above 1 where reads and writes overlap.
    /// `None` if nothing was measured.
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
