//! The state of the daemon at one moment: for `rampart status`, the progress line and the metrics.

use rampart_memory::{Bytes, TestConfig, Timestamp};
use serde::{Deserialize, Serialize};

use crate::control::PolicyName;
use crate::testing::bad_frame::BadFrame;
use crate::testing::verdict::TestVerdict;

/// Name and version of the state's schema.
pub const SCHEMA: &str = "rampart.watch/1";

/// The daemon's state, once per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonState {
    /// [`SCHEMA`].
    pub schema: String,
    /// The daemon's process.
    pub pid: u32,
    /// Its start.
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
    /// Frames, by their tests.
    pub frames: FrameCounts,
    /// Age of the oldest good test, in seconds; `None` without one.
    pub oldest_seconds: Option<f64>,
    /// Claimed memory.
    pub claimed: Bytes,
    /// Frames per second that should be tested, before α.
    pub demand: f64,
    /// The present fidelity and threads.
    pub config: TestConfig,
    /// Frames tested in all, each time counted.
    pub tested: u64,
    /// Recent test rate, in frames per second.
    pub test_rate: f64,
    /// The recent cost of testing.
    pub cost: TestingCost,
    /// Times that programs needed memory back.
    pub pressure: u64,
    /// Times that the alarm was raised.
    pub alarms: u64,
    /// Reports of memory errors, by the hardware.
    pub errors: u64,
    /// Bad frames found since the start, real ones.
    pub bad_frames: u64,
    /// Frames that failed only by emulated faults.
    pub emulated_frames: u64,
    /// Memory of the tool itself, beyond claimed memory.
    pub own: Option<Bytes>,
}

/// Frames by their tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// All frames of the machine.
    pub total: u64,
    /// Frames that were ever free, by number; 0 without the privilege to read frame numbers.
    pub reached: u64,
    /// Of these, frames with a good test.
    pub fresh: u64,
}

/// The cost of testing for the machine: bounds on the slowdown of programs, not a measurement of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestingCost {
    /// Time in march tests, over the time of all CPUs, 0 to 1. A tester runs when no program needs its CPU.
    pub cpu: f64,
    /// Bytes per second that testers read and wrote.
    pub memory_traffic: f64,
    /// The highest slowdown of a program that does nothing but wait for memory: if memory served no more than the bytes
    /// that one CPU alone reads per second, as measured at the start. Most programs lose far less.
    pub slowdown: f64,
}

/// The summary of a run.
#[derive(Clone, Debug, Serialize)]
pub struct WatchSummary {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Rampart.
    pub version: &'static str,
    /// The verdict.
    pub verdict: TestVerdict,
    /// Why it is limited, if so.
    pub incomplete: Option<String>,
    /// Bad frames and pages found, real and emulated.
    pub bad_frames: Vec<BadFrame>,
    /// The last state.
    pub state: DaemonState,
    /// Frames whose page moved while it was tested.
    pub moved: u64,
    /// Tested frames that programs needed before their delayed read, each time counted.
    pub delayed_reads_skipped: u64,
    /// Emulated faults that the test guarantees and missed, in steps that were tested to the end.
    pub missed: Vec<String>,
    /// How frames were held in place.
    pub pinning: Option<String>,
    /// Facts that could not be written to the store.
    pub facts_not_stored: usize,
    /// The length of the run, in seconds.
    pub seconds: f64,
}
