//! Where operations come from.
//!
//! **Problem.** A run on a million ranks has more operations than memory, and most of them are alike. **Idea.** The
//! engine never sees a graph: it tells a schedule what started and what is done, and the schedule answers with what is
//! free to start now. **Why this way.** A GOAL file answers from its edges
//! ([`GoalGraph`](crate::programs::goal::GoalGraph)), a program that is expanded as it runs from a few bytes a rank
//! ([`RoundSchedule`](crate::programs::rounds::RoundSchedule)), and the engine is one and the same.

use crate::model::operation::{OpId, Operation, Rank};
use crate::time::Time;

/// The operations of all ranks and what each waits for.
pub trait Schedule {
    /// How far one rank is.
    type Progress;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// All operations that name another CPU or NIC than number 0, with their ranks.
    fn elsewhere(&self) -> impl Iterator<Item = (Rank, Operation)> {
        std::iter::empty()
    }

    /// The state of a rank that has done nothing; what waits for nothing is appended to `free`.
    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> Self::Progress;

    /// An operation started; what is free by that is appended to `free`.
    fn started(&self, rank: Rank, progress: &mut Self::Progress, operation: OpId, free: &mut Vec<Operation>);

    /// It is known that an operation is done at `end`, which may lie ahead; what is free by that is appended to `free`.
    /// Comes after [`Self::started`].
    fn done(&self, rank: Rank, progress: &mut Self::Progress, operation: OpId, end: Time, free: &mut Vec<Operation>);

    /// Before when an operation that became free cannot start; asked once, when it became free. What follows on the CPU
    /// of what it waited for can be free from the start on: that CPU is busy until then.
    fn ready(&self, _: &mut Self::Progress, _: OpId) -> Time {
        Time::ZERO
    }
}
