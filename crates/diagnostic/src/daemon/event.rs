//! What happens while the machine is watched, for programs: one JSON object for each event (`docs/events.md`).

use rampart_memory::fault_map::Retirement;
use rampart_memory::{Bytes, Frame, TestConfig, Timestamp};
use serde::Serialize;

use crate::testing::bad_frame::BadFrame;
use crate::testing::verdict::Verdict;

/// Name and version of the events' schema.
pub const SCHEMA: &str = "rampart.event/1";

/// Something that happened.
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
    /// A sweep has ended; all that it claimed is given back.
    SweepEnded {
        /// How long it took.
        seconds: f64,
        /// Frames whose test is good now.
        fresh: u64,
        /// Frames that were ever reached.
        reached: u64,
    },
    /// The policy decided otherwise.
    ConfigChanged {
        /// Fidelity and threads from now on.
        config: TestConfig,
        /// Frames a second that should be tested, before α.
        demand: f64,
    },
    /// Demand rose too fast for the epoch to end first: as many threads and as little fidelity as is allowed, until it
    /// does.
    Alarm,
    /// Programs wanted memory that was claimed; they got it.
    Pressure {
        /// How much, since the last such event. At most one is told a second.
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
        /// What it said.
        retirement: Retirement,
    },
    /// The hardware reported memory errors, the kernel or a file passed them on.
    MemoryErrors {
        /// How many reports.
        reports: u64,
        /// Reports that their source lost, or that could not be understood.
        lost: u64,
        /// Frames and regions that are over the threshold now.
        erring: u64,
    },
    /// The configuration was read again.
    Reloaded,
    /// The configuration was read again and is not good; the old one stays.
    ReloadRefused {
        /// What is wrong with it.
        why: String,
    },
    /// Watching has ended; all memory is given back.
    Stopped {
        /// What became of it.
        verdict: Verdict,
    },
}

/// An event and its moment: a line of the log.
#[derive(Clone, Debug, Serialize)]
pub struct Told<'a> {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// When, in microseconds since 1970.
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
