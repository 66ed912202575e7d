//! Programs that are expanded as they run.
//!
//! **Problem.** A program of a million ranks cannot be stored operation by operation, and need not be: most ranks do
//! the same in the same order. **Idea.** A program is a sequence of steps. A step is a round of operations, or a
//! collective, which is a sequence of rounds. The operations of a round start together, and the next round starts when
//! all of them are done. **Why this way.** The progress of a rank is then a step, a round and a counter: some dozens of
//! bytes, whatever the length of the program.

use crate::error::Error;
use crate::model::operation::{OpId, Operation, Rank};
use crate::programs::collective::Collective;
use crate::programs::goal::GoalGraph;
use crate::programs::goal::graph::{After, Builder, RankGraph};
use crate::programs::schedule::Schedule;
use crate::time::Time;

/// The next step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankStep {
    /// The operations that were appended; with none, the step takes no time.
    Round,
    /// A collective of all ranks.
    Collective(Collective),
    /// The program has ended.
    End,
}

/// A program, step by step.
pub trait RankProgram {
    /// The number of ranks.
    fn ranks(&self) -> u32;

    /// The step of a rank with this number, counted from 0; the operations of a [`RankStep::Round`] are appended to
    /// `round`. Messages between two ranks must be in the same order on both.
    fn step(&self, rank: Rank, number: u64, round: &mut Vec<Operation>) -> RankStep;
}

/// The schedule of a program.
#[derive(Clone, Debug)]
pub struct RoundSchedule<P>(pub P);

/// The progress of one rank.
#[derive(Clone, Debug, Default)]
pub struct RoundsProgress {
    /// The next step.
    step: u64,
    /// Its current collective, and the next round of it.
    collective: Option<(Collective, u32)>,
    /// Operations of this round that are not yet done.
    left: usize,
}

impl<P: RankProgram> RoundSchedule<P> {
    /// Appends the operations of the next round that has any.
    fn next(&self, rank: Rank, progress: &mut RoundsProgress, free: &mut Vec<Operation>) {
        let before = free.len();
        while free.len() == before {
            if let Some((collective, round)) = progress.collective {
                let more = collective.round(rank, self.0.ranks(), round, free);
                progress.collective = more.then_some((collective, round + 1));
                continue;
            }
            match self.0.step(rank, progress.step, free) {
                RankStep::Round => {}
                RankStep::Collective(collective) => progress.collective = Some((collective, 0)),
                RankStep::End => return,
            }
            progress.step += 1;
        }
        progress.left = free.len() - before;
    }
}

impl<P: RankProgram> RoundSchedule<P> {
    /// The whole program as graphs, for readers of GOAL.
    ///
    /// # Errors
    /// If it is too large for that.
    pub fn written_out(&self) -> Result<GoalGraph, Error> {
        let ranks: Result<Vec<RankGraph>, Error> = (0..self.0.ranks()).map(|rank| self.graph(Rank(rank))).collect();
        GoalGraph::new(ranks?)
    }

    fn graph(&self, rank: Rank) -> Result<RankGraph, Error> {
        let (mut builder, mut round, mut before) = (Builder::default(), Vec::new(), Vec::new());
        let mut progress = self.begin(rank, &mut round);
        while !round.is_empty() {
            let these: Vec<OpId> = round.drain(..).map(|operation| builder.add(operation)).collect();
            for &waiting in &these {
                before.iter().for_each(|&other| builder.wait(waiting, After::End, other));
            }
            before = these;
            self.next(rank, &mut progress, &mut round);
        }
        builder.finish(rank)
    }
}

impl<P: RankProgram> Schedule for RoundSchedule<P> {
    type Progress = RoundsProgress;

    fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    fn begin(&self, rank: Rank, free: &mut Vec<Operation>) -> RoundsProgress {
        let mut progress = RoundsProgress::default();
        self.next(rank, &mut progress, free);
        progress
    }

    fn started(&self, _: Rank, _: &mut RoundsProgress, _: OpId, _: &mut Vec<Operation>) {}

    fn done(&self, rank: Rank, progress: &mut RoundsProgress, _: OpId, _: Time, free: &mut Vec<Operation>) {
        progress.left -= 1;
        if progress.left == 0 {
            self.next(rank, progress, free);
        }
    }
}

#[cfg(test)]
mod tests {
    use rampart_memory::Bytes;

    use super::*;
    use crate::model::detour::{Burst, CorrectedErrors, ErrorCost, NodeArrivals, Nodes, Overlap, Undisturbed};
    use crate::programs::pattern::{Stencil, SweepPattern};
    use crate::{LogGops, simulate};

    fn same_as_written_out<P: RankProgram>(program: P) {
        let (network, rounds) = (LogGops::loggopsim(), RoundSchedule(program));
        let goal = rounds.written_out().unwrap();
        let errors = CorrectedErrors {
            nodes: Nodes::All,
            mean: Time::from_nanos(100_000),
            burst: Burst::SINGLE,
            cost: ErrorCost::Fixed(Time::from_nanos(20_000)),
            overlap: Overlap::Queued,
            seed: 7,
        };
        let disturbed = NodeArrivals::new(errors).unwrap();
        let quiet = simulate(&rounds, &network, &Undisturbed).unwrap();
        let noisy = simulate(&rounds, &network, &disturbed).unwrap();
        assert_eq!(simulate(&goal, &network, &Undisturbed).unwrap(), quiet);
        assert_eq!(simulate(&goal, &network, &disturbed).unwrap(), noisy);
        assert!(noisy.makespan() > quiet.makespan());
    }

    #[test]
    fn a_program_takes_as_long_as_its_graph() {
        for halo in [0, 100, 100_000] {
            same_as_written_out(Stencil {
                grid: [3, 4, 2],
                steps: 4,
                compute: Time::from_nanos(50_000),
                halo: Bytes::new(halo),
                reduced: Bytes::new(halo),
            });
        }
        same_as_written_out(SweepPattern {
            grid: [4, 3],
            blocks: 5,
            steps: 2,
            compute: Time::from_nanos(10_000),
            face: Bytes::new(800),
        });
    }

    #[test]
    fn a_sweep_runs_through_the_plane_as_a_wave() {
        let sweep =
            |grid| SweepPattern { grid, blocks: 1, steps: 1, compute: Time::from_nanos(10_000), face: Bytes::new(1) };
        let time = |grid| {
            simulate(&RoundSchedule(sweep(grid)), &LogGops::loggopsim(), &Undisturbed).unwrap().makespan().nanos()
        };
        // Four corners, each a wave along the line: computing, then o + L + o to the next rank.
        assert_eq!(time([1, 1]), 4 * 10_000);
        assert!(time([8, 1]) >= 2 * 8 * 10_000, "there and back cannot overlap");
    }
}
