//! Programs in which no two computations take equally long.
//!
//! **Problem.** A simulator may gain from what repeats: ranks that do the same, steps of equal length. In a recorded
//! program nothing repeats. **Idea.** A ring, a dissemination and a halo exchange, in which a number from the rank and
//! the step decides how long each computation takes. **Why this way.** The communication is what real programs do, and
//! whole nanoseconds are what LogGOPSim reads.

use rampart_memory::Bytes;

use super::compared::mix;
use crate::model::operation::{Operation, Rank, Tag};
use crate::programs::rounds::{RankProgram, RankStep};
use crate::time::Time;

/// To whom a rank sends in each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitteredPattern {
    /// To the next rank.
    Ring,
    /// To the rank 1, 2, 4, … further, as in a barrier.
    Dissemination,
    /// To its four neighbours on a torus with rows of this length.
    Halo(u32),
}

/// In each step, each rank computes, and then sends and receives.
#[derive(Clone, Copy, Debug)]
pub struct Jittered {
    /// To whom.
    pub pattern: JitteredPattern,
    /// The number of ranks.
    pub ranks: u32,
    /// The number of steps.
    pub steps: u64,
    /// Bytes of each message.
    pub bytes: Bytes,
    /// Each computation takes between a half and three halves of this.
    pub compute: Time,
}

impl Jittered {
    /// The distances to the ranks to which each rank sends in a step.
    fn distances(&self, step: u64) -> Vec<u32> {
        match self.pattern {
            JitteredPattern::Ring => vec![1],
            JitteredPattern::Dissemination => {
                let rounds = u64::from(self.ranks.next_power_of_two().ilog2()).max(1);
                vec![1 << (step % rounds)]
            }
            JitteredPattern::Halo(row) => vec![1, self.ranks - 1, row, self.ranks - row],
        }
    }

    fn computes(&self, rank: Rank, step: u64) -> Time {
        let nanos = self.compute.nanos().max(1);
        Time::from_nanos(nanos / 2 + mix(step << 32 | u64::from(rank.0)) % nanos)
    }
}

impl RankProgram for Jittered {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep {
        let step = number / 2;
        if step >= self.steps {
            return RankStep::End;
        }
        if number.is_multiple_of(2) {
            round.push(Operation::calc(self.computes(rank, step)));
            return RankStep::Round;
        }
        for distance in self.distances(step) {
            let (to, from) = ((rank.0 + distance) % self.ranks, (rank.0 + self.ranks - distance) % self.ranks);
            round.push(Operation::send(Rank(to), self.bytes, Tag(0)));
            round.push(Operation::recv(Some(Rank(from)), self.bytes, Some(Tag(0))));
        }
        RankStep::Round
    }
}
