//! The daemon's events as JSON, one object per event (`docs/events.md`).

use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Frame, TestConfig, Timestamp};
use serde::Serialize;

use crate::testing::bad_frame::BadFrame;
use crate::testing::verdict::TestVerdict;

/// Name and version of the events' schema.
pub const SCHEMA: &str = "rampart.event/1";

/// An event.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum DaemonEvent {
    /// The daemon started.
    Started {
        /// Version of Rampart.
        version: &'static str,
        /// The march test in its notation.
        notation: String,
    },
    /// A sweep through free memory began.
    SweepBegan,
    /// A sweep has ended; all memory that it claimed is given back.
    SweepEnded {
        /// How long it took.
        seconds: f64,
        /// Frames whose test has not expired.
        fresh: u64,
        /// Frames that were ever reached.
        reached: u64,
    },
    /// The policy changed the configuration.
    ConfigChanged {
        /// Fidelity and threads from now on.
        config: TestConfig,
        /// Frames a second that should be tested, before α.
        demand: f64,
    },
    /// Demand rose too fast to wait for the end of the epoch: until then, as many threads and as low a fidelity as the
    /// limits allow.
    Alarm,
    /// Programs needed claimed memory and got it.
    Pressure {
        /// The amount since the last such event. At most one such event per second is reported.
        bytes: Bytes,
    },
    /// A frame was found bad; it is in the store.
    BadFrame {
        /// The frame.
        bad: Box<BadFrame>,
    },
    /// The kernel was asked to retire a bad frame.
    Retired {
        /// The frame.
        frame: Frame,
        /// The kernel's answer.
        retirement: Retirement,
    },
    /// The hardware reported memory errors, through the kernel or a file.
    MemoryErrors {
        /// How many reports.
        reports: u64,
        /// Reports that their source lost, or that could not be read.
        lost: u64,
        /// Frames and regions above the threshold.
        erring: u64,
    },
    /// Replicas of MPI ranks had something wrong on this node, twice or more: all its memory is tested now.
    NodeSuspected {
        /// How often.
        errors: u64,
        /// In how many jobs.
        jobs: u64,
        /// When the job with the last of these errors ended.
        last: Timestamp,
    },
    /// All memory within reach was tested since then, and this node is no longer suspect.
    NodeTested {
        /// When the sweep began that tested it.
        began: Timestamp,
    },
    /// The configuration was read again.
    Reloaded,
    /// The configuration was read again and is invalid; the old one stays in force.
    ReloadRefused {
        /// The error.
        why: String,
    },
    /// The daemon has stopped; all memory is given back.
    Stopped {
        /// The verdict of the run.
        verdict: TestVerdict,
    },
}

/// An event and its time: a line of the log.
#[derive(Clone, Debug, Serialize)]
pub struct EventRecord<'a> {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// When, in microseconds since 1970.
    pub at: Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: &'a DaemonEvent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object_with_its_name() {
        let event = DaemonEvent::SweepEnded { seconds: 1.5, fresh: 3, reached: 4 };
        let record = EventRecord { schema: SCHEMA, at: Timestamp::from_micros(7), event: &event };
        let expected =
            r#"{"schema":"rampart.event/1","at":7,"event":"sweep_ended","seconds":1.5,"fresh":3,"reached":4}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), expected);
    }
}
