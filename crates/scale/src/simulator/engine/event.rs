//! An event of a rank, and the order of events.

use crate::model::operation::{Operation, Rank};
use crate::time::Time;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An operation of the rank should start.
    Start,
    /// The first byte of a message reached the rank: `operation` is the send, its peer is the sender.
    Arrive,
}

/// An event of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SimulationEvent {
    pub time: Time,
    /// The order in which events were made; a postponed event keeps its number.
    pub number: u64,
    pub operation: Operation,
    pub rank: Rank,
    pub what: What,
}

impl SimulationEvent {
    /// The sort key of events; no two have the same.
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
