//! How the machine is watched at one moment: what `rampart status`, the progress line and the metrics show.

use rampart_memory::{Bytes, TestConfig, Timestamp};
use serde::{Deserialize, Serialize};

use crate::control::PolicyName;
use crate::testing::bad_frame::BadFrame;
use crate::testing::verdict::Verdict;

/// Name and version of the state's schema.
pub const SCHEMA: &str = "rampart.watch/1";

/// What the daemon says of itself, once a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonState {
    /// [`SCHEMA`].
    pub schema: String,
    /// The process that watches.
    pub pid: u32,
    /// When it began.
    pub started: Timestamp,
    /// The moment of which this tells.
    pub at: Timestamp,
    /// Whether a sweep through free memory is under way.
    pub sweeping: bool,
    /// Sweeps that have ended.
    pub sweeps: u64,
    /// The vulnerability window, in seconds.
    pub lifetime_seconds: f64,
    /// The policy.
    pub policy: PolicyName,
    /// Frames, by what is known of them.
    pub frames: FrameCounts,
    /// Age of the oldest test that is good, in seconds; `None` if none is.
    pub oldest_seconds: Option<f64>,
    /// Memory that is claimed now.
    pub claimed: Bytes,
    /// Frames a second that should be tested, before α.
    pub demand: f64,
    /// Fidelity and threads now.
    pub config: TestConfig,
    /// Frames tested in all, each time counted.
    pub tested: u64,
    /// Frames tested in a second, of late.
    pub test_rate: f64,
    /// What testing takes from the machine, of late.
    pub cost: TestingCost,
    /// Times that programs wanted memory back.
    pub pressure: u64,
    /// Times that the alarm was raised.
    pub alarms: u64,
    /// Reports of memory errors, by the hardware.
    pub errors: u64,
    /// Bad frames found since the start, real ones.
    pub bad_frames: u64,
    /// Frames found that were only made to look bad.
    pub emulated_frames: u64,
    /// Memory that the tool itself uses beyond what it claims.
    pub own: Option<Bytes>,
}

/// Frames by what is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// All of the machine.
    pub total: u64,
    /// Ever seen free, by number; 0 without the privilege to read frame numbers.
    pub reached: u64,
    /// Of these, with a good test.
    pub fresh: u64,
}

/// What testing takes from the machine: bounds on the slowdown of programs, not a measurement of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestingCost {
    /// Time in which testers marched, over the time of all CPUs, 0 to 1. A tester runs when no program wants its CPU.
    pub cpu: f64,
    /// Bytes that testers read and wrote in a second.
    pub memory_traffic: f64,
    /// How many times as long a program takes at most that does nothing but wait for memory: if memory served no more
    /// than the bytes that one CPU reads in a second alone, which was measured at the start. Most programs lose far
    /// less.
    pub slowdown: f64,
}

/// How watching ended.
#[derive(Clone, Debug, Serialize)]
pub struct WatchSummary {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Rampart.
    pub version: &'static str,
    /// The outcome.
    pub verdict: Verdict,
    /// Why it says little, if so.
    pub incomplete: Option<String>,
    /// Bad frames and pages found, real and emulated.
    pub bad_frames: Vec<BadFrame>,
    /// The last state.
    pub state: DaemonState,
    /// Frames whose page moved while it was tested.
    pub moved: u64,
    /// Tested frames that programs wanted back before their delayed read, each time counted.
    pub delayed_reads_skipped: u64,
    /// Emulated faults that the test promises to find and did not, in steps that were tested to the end.
    pub missed: Vec<String>,
    /// How frames were held in place.
    pub pinning: Option<String>,
    /// Facts that could not be written to the store.
    pub facts_not_stored: usize,
    /// How long it was watched, in seconds.
    pub seconds: f64,
}
