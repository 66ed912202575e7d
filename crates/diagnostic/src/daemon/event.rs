//! Events while the machine is watched, for programs: one JSON object for each event (`docs/events.md`).

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
    /// Watching began.
    Started {
        /// Version of Rampart.
        version: &'static str,
        /// The march test in its notation.
        notation: String,
    },
    /// A sweep through free memory began.
    SweepBegan,
    /// A sweep has ended; all its claimed memory is given back.
    SweepEnded {
        /// How long it took.
        seconds: f64,
        /// Frames whose test is good now.
        fresh: u64,
        /// Frames that were ever reached.
        reached: u64,
    },
    /// The policy changed its decision.
    ConfigChanged {
        /// Fidelity and threads from now on.
        config: TestConfig,
        /// Frames a second that should be tested, before α.
        demand: f64,
    },
    /// Demand rose too fast to wait for the end of the epoch: until then, the most threads and the lowest fidelity that
    /// are allowed.
    Alarm,
    /// Programs needed claimed memory; they got it.
    Pressure {
        /// How much, since the last such event. At most one is reported per second.
        bytes: Bytes,
    },
    /// A frame was found bad; it is in the store.
    BadFrame {
        /// The frame.
        bad: Box<BadFrame>,
    },
    /// The kernel was asked to use a bad frame no more.
    Retired {
        /// The frame.
        frame: Frame,
        /// Its answer.
        retirement: Retirement,
    },
    /// Memory errors of the hardware, as the kernel or a file reported them.
    MemoryErrors {
        /// How many reports.
        reports: u64,
        /// Reports that their source lost, or that could not be parsed.
        lost: u64,
        /// Frames and regions that are over the threshold now.
        erring: u64,
    },
    /// The configuration was read again.
    Reloaded,
    /// The configuration was read again and is wrong; the old one stays.
    ReloadRefused {
        /// The reason.
        why: String,
    },
    /// Watching has ended; all memory is given back.
    Stopped {
        /// The verdict.
        verdict: TestVerdict,
    },
}

/// An event with its time: a line of the log.
#[derive(Clone, Debug, Serialize)]
pub struct Told<'a> {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The time, in microseconds since 1970.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: &'a DaemonEvent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object_with_its_name() {
        let event = DaemonEvent::SweepEnded { seconds: 1.5, fresh: 3, reached: 4 };
        let told = Told { schema: SCHEMA, at: Timestamp::from_micros(7), event: &event };
        let expected =
            r#"{"schema":"rampart.event/1","at":7,"event":"sweep_ended","seconds":1.5,"fresh":3,"reached":4}"#;
        assert_eq!(serde_json::to_string(&told).unwrap(), expected);
    }
}
