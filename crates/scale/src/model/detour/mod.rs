//! Detours: times at which a node's CPU is not available to the program.
//!
//! **Problem.** A corrected error stops a node for a while, together with the ranks that wait for it. **Idea.** Each
//! node has a fixed series of detours, stretches of time that no program gets; work takes the time between them. **Why
//! this way.** The series exists before the program runs. The program's loss therefore does not depend on how its work
//! is split into operations, on the order of events, or on which node is simulated first.

mod arrivals;

use crate::model::operation::Rank;
use crate::time::Time;

pub use arrivals::{ArrivalCursor, Burst, CorrectedErrors, ErrorCost, NodeArrivals, Nodes, Overlap};

/// The detours of all nodes; one rank runs on each node. A detour takes all CPUs of a rank at once.
pub trait Detours {
    /// The position of one CPU in its node's detours.
    type Cursor;

    /// Before the first detour.
    fn begin(&self, rank: Rank) -> Self::Cursor;

    /// `now`, or the end of the detour that contains `now`. Times must not decrease from call to call.
    fn free_from(&self, rank: Rank, cursor: &mut Self::Cursor, now: Time) -> Time;

    /// The start of the next detour: work before it takes its own time only, for times not before any earlier call's.
    fn quiet_until(&self, cursor: &Self::Cursor) -> Time;

    /// The time at which `work` that starts at `start` is done; work of length zero is done at once. Times must not
    /// decrease, as in [`Self::free_from`].
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
