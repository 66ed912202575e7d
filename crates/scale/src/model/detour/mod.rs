//! Times at which a node's CPU is taken away.
//!
//! **Problem.** A corrected error stops a node for a while, and a program on it with all who wait for it. **Idea.**
//! Each node has a fixed row of detours, stretches of time that belong to no program; work takes the time between them.
//! **Why this way.** The row is there before the program is: so what a program loses does not depend on how its work is
//! cut into operations, on the order of events, or on which node is looked at first.

mod arrivals;

use crate::model::operation::Rank;
use crate::time::Time;

pub use arrivals::{ArrivalCursor, Burst, CorrectedErrors, ErrorCost, NodeArrivals, Nodes, Overlap};

/// The detours of all nodes; one rank runs on each. All CPUs of a rank are taken at once.
pub trait Detours {
    /// Where one CPU is in the row of its node.
    type Cursor;

    /// Before the first detour.
    fn begin(&self, rank: Rank) -> Self::Cursor;

    /// `now`, or the end of the detour that `now` lies in. Never asked for a time before one that was asked for.
    fn free_from(&self, rank: Rank, cursor: &mut Self::Cursor, now: Time) -> Time;

    /// When the next detour starts: before that, and not before any time that was asked for, work takes its time and no
    /// more.
    fn quiet_until(&self, cursor: &Self::Cursor) -> Time;

    /// When so much work is done that starts at `start`; work of no length is done at once. As [`Self::free_from`] in
    /// time.
    fn finish(&self, rank: Rank, cursor: &mut Self::Cursor, start: Time, work: Time) -> Time;
}

/// No detours at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Undisturbed;

impl Detours for Undisturbed {
    type Cursor = ();

    fn begin(&self, _: Rank) {}

    fn free_from(&self, _: Rank, (): &mut (), now: Time) -> Time {
        now
    }

    fn quiet_until(&self, (): &()) -> Time {
        Time::MAX
    }

    fn finish(&self, _: Rank, (): &mut (), start: Time, work: Time) -> Time {
        start.plus(work)
    }
}
