//! The source of operations.
//!
//! **Problem.** A run on a million ranks has more operations than fit into memory, and most of them are alike.
//! **Idea.** The engine never sees a graph: it reports what started and what is done, and the schedule answers with the
//! operations that are now ready to start. **Why this way.** A GOAL file answers from its edges
//! ([`GoalGraph`](crate::programs::goal::GoalGraph)), an expanded program from a few bytes per rank
//! ([`RoundSchedule`](crate::programs::rounds::RoundSchedule)), and both use the same engine.

use crate::model::operation::{OpId, Operation, Rank};
use crate::time::Time;

/// The operations of all ranks and what each waits for.
pub trait Schedule {
    /// The progress of one rank.
    type Progress;

    /// The number of ranks.
    fn ranks(&self) -> u32;

    /// All operations on another CPU or NIC than number 0, with their ranks.
    fn elsewhere(&self) -> impl Iterator<Item = (Rank, Operation)> {
        std::iter::empty()
    }

    /// The progress of a rank at the start; the operations that wait for nothing are appended to `free`.
    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> Self::Progress;

    /// An operation started; the operations that it makes ready are appended to `free`.
    fn started(&self, rank: Rank, progress: &mut Self::Progress, operation: OpId, free: &mut Vec<Operation>);

    /// The end of an operation is now known: `end`, which may be in the future. The operations that it makes ready are
    /// appended to `free`. Called after [`Self::started`].
    fn done(&self, rank: Rank, progress: &mut Self::Progress, operation: OpId, end: Time, free: &mut Vec<Operation>);

    /// The earliest start of an operation; asked once, when the operation becomes ready. An operation on the same CPU
    /// as the one that it waited for needs no later time: that CPU is busy until then.
    fn ready(&self, _: &mut Self::Progress, _: OpId) -> Time {
        Time::ZERO
    }
}
