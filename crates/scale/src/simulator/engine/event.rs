//! Something that happens to a rank, and the order of such events.

use crate::model::operation::{Operation, Rank};
use crate::time::Time;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An operation of the rank is to start.
    Start,
    /// The first byte of a message reached the rank: `operation` is the send, its peer is the sender.
    Arrive,
}

/// Something that happens to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimulationEvent {
    pub time: Time,
    /// In which order events were made; kept when one is put off.
    pub number: u64,
    pub operation: Operation,
    pub rank: Rank,
    pub what: What,
}

impl SimulationEvent {
    /// By what events are in order; no two have the same.
    pub fn key(&self) -> (Time, u64) {
        (self.time, self.number)
    }
}

impl PartialOrd for SimulationEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SimulationEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
