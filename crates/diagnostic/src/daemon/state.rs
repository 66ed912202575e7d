//! The daemon's state at one moment: `rampart status`, the progress line and the metrics show it.

use rampart_memory::{Bytes, TestConfig, Timestamp};
use serde::{Deserialize, Serialize};

use crate::control::PolicyName;
use crate::sources::GuaranteeState;
use crate::testing::bad_frame::BadFrame;
use crate::testing::verdict::TestVerdict;

/// Name and version of the state's schema.
pub const SCHEMA: &str = "rampart.watch/1";

/// The state that the daemon publishes once a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonState {
    /// [`SCHEMA`].
    pub schema: String,
    /// The daemon's process.
    pub pid: u32,
    /// When it started.
    pub started: Timestamp,
    /// The time of this state.
    pub at: Timestamp,
    /// Whether a sweep through free memory is under way.
    pub sweeping: bool,
    /// Sweeps that have ended.
    pub sweeps: u64,
    /// The vulnerability window, in seconds.
    pub lifetime_seconds: f64,
    /// The policy.
    pub policy: PolicyName,
    /// Frame counts, by test state.
    pub frames: FrameCounts,
    /// Age of the oldest test that has not expired, in seconds; `None` if there is none.
    pub oldest_seconds: Option<f64>,
    /// Memory that is claimed now.
    pub claimed: Bytes,
    /// How frames in use are kept tested; `None` if only free memory is.
    #[serde(default)]
    pub guarantee: Option<GuaranteeState>,
    /// Frames a second that should be tested, before α.
    pub demand: f64,
    /// Fidelity and threads now.
    pub config: TestConfig,
    /// Frame tests in all; a frame counts each time that it is tested.
    pub tested: u64,
    /// When frames were last tested; `None` if none were since the start.
    #[serde(default)]
    pub last_test: Option<Timestamp>,
    /// Whether frames came due before they were tested again.
    #[serde(default)]
    pub overdue: bool,
    /// Frames tested per second since the last report.
    pub test_rate: f64,
    /// The cost of testing since the last report.
    pub cost: TestingCost,
    /// How often programs needed memory back.
    pub pressure: u64,
    /// How often the alarm was raised.
    pub alarms: u64,
    /// Memory errors that the hardware reported.
    pub errors: u64,
    /// Memory blocks that are offline: they are not tested.
    #[serde(default)]
    pub offline: Bytes,
    /// Frames with real errors found since the start.
    pub bad_frames: u64,
    /// Frames found with injected faults only.
    pub emulated_frames: u64,
    /// Memory that the tool itself uses, in frames or in swap, beyond what it has for its claims.
    pub own: Option<Bytes>,
}

/// Frame counts, by test state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// All of the machine.
    pub total: u64,
    /// Frames that were ever seen free; 0 without the privilege to read frame numbers.
    pub reached: u64,
    /// Of these, frames whose test has not expired.
    pub fresh: u64,
}

/// The cost of testing: upper bounds on the slowdown of programs, not a measurement of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestingCost {
    /// Testing time as a fraction of all CPU time, 0 to 1. A tester runs when no program needs its CPU.
    pub cpu: f64,
    /// Bytes per second that testers read and wrote.
    pub memory_traffic: f64,
    /// The upper bound of the slowdown factor, for a program that only waits for memory. It assumes that memory serves
    /// no more bytes per second than one CPU reads alone, which was measured at the start. Most programs lose far less.
    pub slowdown: f64,
}

/// The result of a run of `rampart watch`.
#[derive(Clone, Debug, Serialize)]
pub struct WatchSummary {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Rampart.
    pub version: &'static str,
    /// The outcome.
    pub verdict: TestVerdict,
    /// Why the verdict is incomplete, if it is.
    pub incomplete: Option<String>,
    /// Bad frames and pages found, real and emulated.
    pub bad_frames: Vec<BadFrame>,
    /// The last state.
    pub state: DaemonState,
    /// Frames whose page moved during the test.
    pub moved: u64,
    /// Delayed reads that were skipped because programs needed the tested frames.
    pub delayed_reads_skipped: u64,
    /// Injected faults within the detection guarantee that the test did not find, in steps that were tested completely.
    pub missed: Vec<String>,
    /// How frames were held in place.
    pub pinning: Option<String>,
    /// Facts that could not be written to the store.
    pub facts_not_stored: usize,
    /// How long the daemon ran, in seconds.
    pub seconds: f64,
}
