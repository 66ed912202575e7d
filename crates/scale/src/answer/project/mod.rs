//! What memory errors cost a program on a system: the question and the answer.
//!
//! **Problem.** A slowdown is a mean over random errors. With too few errors it means nothing; with too many it takes
//! days. **Idea.** Run the program so long that a wanted number of errors is expected, once for each of several seeds;
//! the interval follows from the spread over the seeds. **Why this way.** Cycles without errors cost nothing
//! ([`lockstep`](crate::simulator::lockstep), [`blocks`](crate::simulator::blocks)), so the cost of a run depends on
//! its errors and not on the time between them.
//!
//! | module | owns |
//! |---|---|
//! | [`advice`] | recommendations that follow from the cost of errors |
//! | [`claims`] | the statements of \[Ferreira21\] about its figures, and whether they hold |
//! | [`figure`] | [Ferreira21, fig. 3 to 7], as questions |
//! | `search` | the most frequent errors that a program tolerates |

pub mod advice;
pub mod claims;
pub mod figure;
mod search;

use std::sync::atomic::AtomicBool;

use rampart_memory::Bytes;

use crate::answer::slowdown::{MOST_DRAWN, Slowdown};
use crate::error::Error;
use crate::model::detour::{CorrectedErrors, Detours, NodeArrivals, Nodes, Undisturbed};
use crate::model::network::LogGops;
use crate::programs::rounds::RankProgram;
use crate::programs::traced::TracedWorkload;
use crate::programs::workload::WorkloadRun;
use crate::simulator::blocks::Blocks;
use crate::simulator::lockstep::Lockstep;
use crate::statistics::parallel_runs::ParallelRuns;
use crate::time::Time;

pub use search::{BEARABLE, Bearable, bearable};

/// Errors that a run should meet, by default; eight runs give a standard error of a twentieth of the cost.
pub const ERRORS_A_RUN: u64 = 32;

/// The least number of cycles in a run of a skeleton: the first cycles differ, since all ranks start at the same time.
/// Those of a trace do not: all ranks start at the same time after each meeting.
const LEAST_CYCLES: u64 = 6;

/// The longest undisturbed time of a run: 20 days, so that a slowdown of ten still ends within [`Time::MAX`].
const LONGEST: Time = Time::from_picos(20 * 86_400 * 1_000_000_000_000);

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// The times with and without errors.
    pub slowdown: Slowdown,
    /// Cycles of each run.
    pub cycles: u64,
    /// Errors expected in each run's undisturbed time.
    pub expected: f64,
}

impl Projection {
    /// The mean increase of the program's time: 0.1 is a tenth.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.slowdown.mean() - 1.0
    }

    /// Half of the interval that contains [`Self::cost`] with 95 %; infinite with one run.
    #[must_use]
    pub fn uncertainty(&self) -> f64 {
        self.slowdown.interval()
    }

    /// Whether the runs met too few errors for a useful interval: fewer than 20 in all runs.
    #[must_use]
    pub fn is_vague(&self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a count of runs")]
        let runs = self.slowdown.disturbed.len() as f64;
        self.expected * runs < 20.0
    }

    /// The slowdown as if each of these errors delayed all ranks by its whole time: none costs more. Infinite if such
    /// errors would leave no time for the program.
    #[must_use]
    pub fn at_most(&self, errors: &CorrectedErrors) -> f64 {
        // Errors come during what they have delayed, too: s = share (1 + s).
        let share = self.expected * errors.cost.mean_secs() / self.slowdown.undisturbed.as_secs_f64();
        if share < 1.0 { share / (1.0 - share) } else { f64::INFINITY }
    }
}

/// An expanded program, ready for questions about many errors.
#[derive(Debug)]
pub struct PreparedProgram {
    simulated: Simulated,
    nodes: u32,
}

/// How the program is simulated.
#[derive(Debug)]
enum Simulated {
    /// A skeleton.
    Lockstep(Lockstep),
    /// A trace.
    Blocks(Blocks),
}

impl PreparedProgram {
    /// Expands a skeleton.
    ///
    /// # Errors
    /// Those of a run.
    pub fn new(program: &WorkloadRun, network: &LogGops) -> Result<Self, Error> {
        let simulated = Simulated::Lockstep(Lockstep::new(program, network)?);
        Ok(Self { simulated, nodes: program.ranks() })
    }

    /// Extrapolates a trace to about so many nodes.
    ///
    /// # Errors
    /// Those of a run.
    pub fn traced(program: &TracedWorkload, nodes: u32, network: &LogGops) -> Result<Self, Error> {
        let blocks = Blocks::new(program.cycle(network)?, program.copies(nodes), network)?;
        Ok(Self { nodes: blocks.ranks(), simulated: Simulated::Blocks(blocks) })
    }

    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// One cycle of the program, without errors.
    #[must_use]
    pub fn cycle(&self) -> Time {
        match &self.simulated {
            Simulated::Lockstep(lockstep) => lockstep.cycle(),
            Simulated::Blocks(blocks) => blocks.cycle(),
        }
    }

    /// Runs the program with and without errors.
    ///
    /// # Errors
    /// Those of a run; also if these errors leave no time for a program, or are too many to draw.
    pub fn ask(
        &self,
        errors: &CorrectedErrors,
        runs: u64,
        wanted: u64,
        parallel: &ParallelRuns,
    ) -> Result<Projection, Error> {
        // Refused before anything takes long.
        NodeArrivals::new(errors.clone())?;
        let (cycles, expected) = self.length(errors, wanted)?;
        let undisturbed = self.run(cycles, &Undisturbed, parallel.stop)?;
        let run = |number: u64| {
            let errors = CorrectedErrors { seed: errors.seed.wrapping_add(number), ..errors.clone() };
            self.run(cycles, &NodeArrivals::new(errors)?, parallel.stop)
        };
        let disturbed = parallel.make(runs, &run)?;
        Ok(Projection { slowdown: Slowdown { undisturbed, disturbed }, cycles, expected })
    }

    /// The time of so many cycles.
    fn run<D>(&self, cycles: u64, detours: &D, stop: &AtomicBool) -> Result<Time, Error>
    where
        D: Detours,
        D::Cursor: Clone,
    {
        Ok(match &self.simulated {
            Simulated::Lockstep(lockstep) => lockstep.run(cycles, detours, stop)?.makespan,
            Simulated::Blocks(blocks) => blocks.run(cycles, detours, stop)?.makespan,
        })
    }

    /// The number of cycles of a run, and the number of errors expected in them.
    fn length(&self, errors: &CorrectedErrors, wanted: u64) -> Result<(u64, f64), Error> {
        #[expect(clippy::cast_precision_loss, reason = "a count of errors")]
        let (wanted, burst) = (wanted as f64, errors.burst.errors as f64);
        let nodes = match errors.nodes {
            Nodes::All => f64::from(self.nodes),
            Nodes::One(_) => 1.0,
        };
        let apart = errors.mean.as_secs_f64() / nodes / burst;
        let long = Time::from_secs_f64(wanted * apart).min(LONGEST);
        let cycles = long.picos().div_ceil(self.cycle().picos().max(1)).max(self.least_cycles());
        #[expect(clippy::cast_precision_loss, reason = "a count of cycles")]
        let expected = cycles as f64 * self.cycle().as_secs_f64() / apart;
        if expected * errors.drawn_for_each() > MOST_DRAWN {
            return Err(Error::TooManyErrors { apart: errors.mean });
        }
        Ok((cycles, expected))
    }

    fn least_cycles(&self) -> u64 {
        match self.simulated {
            Simulated::Lockstep(_) => LEAST_CYCLES,
            Simulated::Blocks(_) => 1,
        }
    }
}

/// Memory that a run of a trace takes on about so many nodes.
#[must_use]
pub fn memory_of_traced(program: &TracedWorkload, nodes: u32, threads: usize) -> Bytes {
    Bytes::new(Blocks::bytes_a_rank(threads) * u64::from(program.copies(nodes)) * u64::from(program.ranks))
}

/// Memory that a run of a skeleton takes: its expanded messages and, for each thread, the times of its ranks.
#[must_use]
pub fn memory(program: &WorkloadRun, threads: usize) -> Bytes {
    Bytes::new(Lockstep::bytes_a_rank(program, threads) * u64::from(program.ranks()))
}

#[cfg(test)]
mod tests;
