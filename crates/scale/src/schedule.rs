//! Where operations come from.
//!
//! **Problem.** A run on a million ranks has more operations than memory, and most of them are alike. **Idea.** The engine
//! never sees a graph: it tells a schedule what started and what is done, and the schedule answers with what is free to start
//! now. **Why this way.** A GOAL file answers from its edges ([`Goal`](crate::goal::Goal)), a program that is expanded as it runs
//! from a few bytes a rank ([`Rounds`](crate::rounds::Rounds)), and the engine is one and the same.

use crate::operation::{OpId, Operation, Rank};

/// The operations of all ranks and what each waits for.
pub trait Schedule {
    /// How far one rank is.
    type Progress;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// CPUs of each rank, at least 1: every operation names one below this.
    fn cpus(&self) -> u8 {
        1
    }

    /// NICs of each rank, at least 1: every operation names one below this.
    fn nics(&self) -> u8 {
        1
    }

    /// The state of a rank that has done nothing; what waits for nothing is appended to `free`.
    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> Self::Progress;

    /// An operation started; what is free by that is appended to `free`.
    fn started(&self, rank: Rank, progress: &mut Self::Progress, operation: OpId, free: &mut Vec<Operation>);

    /// An operation is done; what is free by that is appended to `free`. Comes after [`Self::started`].
    fn done(&self, rank: Rank, progress: &mut Self::Progress, operation: OpId, free: &mut Vec<Operation>);
}
