//! What errors cost a program.
//!
//! **Problem.** One run with random errors says little; many runs take long. **Idea.** Run the program once
//! undisturbed, then once for each of many seeds, on all available threads. **Why this way.** A run depends on its seed
//! alone, so the result is the same for any number of threads.

use crate::error::Error;
use crate::model::detour::{CorrectedErrors, NodeArrivals, Nodes, Undisturbed};
use crate::model::network::LogGops;
use crate::programs::schedule::Schedule;
use crate::simulator::engine::simulate_until;
use crate::statistics::confidence::student;
use crate::statistics::parallel_runs::ParallelRuns;
use crate::time::Time;

/// Makespans with and without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slowdown {
    /// The makespan without errors.
    pub undisturbed: Time,
    /// The makespans with errors, one per seed.
    pub disturbed: Vec<Time>,
}

impl Slowdown {
    /// Mean time with errors divided by the time without; 1 is no slowdown, also for a program of length zero.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let ratios = self.ratios();
        if ratios.is_empty() { 1.0 } else { ratios.iter().sum::<f64>() / length(&ratios) }
    }

    /// Standard error of [`Self::mean`]; infinite with fewer than two runs.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let (ratios, mean) = (self.ratios(), self.mean());
        if ratios.len() < 2 {
            return f64::INFINITY;
        }
        let squares: f64 = ratios.iter().map(|ratio| (ratio - mean) * (ratio - mean)).sum();
        (squares / (length(&ratios) - 1.0) / length(&ratios)).sqrt()
    }

    /// Half of the interval that contains [`Self::mean`] with 95 %; infinite with fewer than two runs.
    #[must_use]
    pub fn interval(&self) -> f64 {
        match self.disturbed.len() {
            0 | 1 => f64::INFINITY,
            runs => student(runs) * self.standard_error(),
        }
    }

    fn ratios(&self) -> Vec<f64> {
        let undisturbed = self.undisturbed.as_secs_f64();
        let ratio = |time: &Time| if undisturbed > 0.0 { time.as_secs_f64() / undisturbed } else { 1.0 };
        self.disturbed.iter().map(ratio).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of runs")]
fn length(ratios: &[f64]) -> f64 {
    ratios.len() as f64
}

/// The most errors that a run may draw: less than a second of work.
pub(crate) const MOST_DRAWN: f64 = 1e7;

/// Runs a program once undisturbed and `runs` times with errors; the first seed is that of `errors`.
///
/// # Errors
/// Those of a run; also if the errors cannot be simulated or are too many to draw.
pub fn slowdown<S>(
    schedule: &S,
    network: &LogGops,
    errors: &CorrectedErrors,
    runs: u64,
    parallel: &ParallelRuns,
) -> Result<Slowdown, Error>
where
    S: Schedule + Sync,
{
    let undisturbed = simulate_until(schedule, network, &Undisturbed, parallel.stop)?.makespan();
    (parallel.done)(1);
    let nodes = if errors.nodes == Nodes::All { f64::from(schedule.ranks()) } else { 1.0 };
    // Refused before anything takes long.
    NodeArrivals::new(errors.clone())?;
    if undisturbed.as_secs_f64() / errors.mean.as_secs_f64() * nodes * errors.drawn_for_each() > MOST_DRAWN {
        return Err(Error::TooManyErrors { apart: errors.mean });
    }
    let run = |number: u64| {
        let errors = CorrectedErrors { seed: errors.seed.wrapping_add(number), ..errors.clone() };
        Ok(simulate_until(schedule, network, &NodeArrivals::new(errors)?, parallel.stop)?.makespan())
    };
    Ok(Slowdown { undisturbed, disturbed: parallel.make(runs, &run)? })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use rampart_memory::Bytes;

    use super::*;
    use crate::model::detour::{Burst, Overlap};
    use crate::model::operation::Rank;
    use crate::model::system::Reporting;
    use crate::programs::pattern::Stencil;
    use crate::programs::rounds::RoundSchedule;

    /// Ten seconds on 27 nodes, in steps of 10 ms.
    fn program() -> RoundSchedule<Stencil> {
        let compute = Time::from_nanos(10_000_000);
        RoundSchedule(Stencil { grid: [3, 3, 3], steps: 1000, compute, halo: Bytes::new(4096), reduced: Bytes::new(8) })
    }

    fn errors(nodes: Nodes, mean: Time, reporting: Reporting) -> CorrectedErrors {
        let (burst, overlap) = (Burst::SINGLE, Overlap::Queued);
        CorrectedErrors { nodes, mean, burst, cost: reporting.cost(), overlap, seed: 11 }
    }

    fn measured(errors: &CorrectedErrors, threads: usize) -> Slowdown {
        let parallel = ParallelRuns { threads, stop: &AtomicBool::new(false), done: &|_| {} };
        slowdown(&program(), &LogGops::loggopsim(), errors, 4, &parallel).unwrap()
    }

    #[test]
    fn a_seed_is_one_result_on_any_number_of_threads() {
        let errors = errors(Nodes::All, Time::from_secs_f64(10.0), Reporting::Firmware);
        let alone = measured(&errors, 1);
        assert_eq!(measured(&errors, 4), alone);
        assert!(alone.disturbed.windows(2).any(|pair| pair[0] != pair[1]), "seeds differ");
    }

    /// [Ferreira21, IV-B], on one node of a stencil. Correction by hardware costs nothing. Logging by software costs
    /// less than a tenth at 10 ms between errors. Logging by firmware costs about a seventh at 1 s, and hundreds of
    /// percent at 200 ms.
    #[test]
    fn errors_on_one_node_cost_what_the_paper_says_by_who_logs_them() {
        let mean = |secs, reporting| {
            measured(&errors(Nodes::One(Rank(13)), Time::from_secs_f64(secs), reporting), 2).mean() - 1.0
        };
        assert!(mean(0.01, Reporting::Hardware) < 0.01);
        let software = mean(0.01, Reporting::Software);
        assert!((0.02..0.10).contains(&software), "{software}");
        let firmware = mean(1.0, Reporting::Firmware);
        assert!((0.05..0.25).contains(&firmware), "{firmware}");
        let often = mean(0.2, Reporting::Firmware);
        assert!(often > 1.0, "{often}");
    }

    #[test]
    fn errors_on_all_nodes_cost_more_than_on_one() {
        let mean = |nodes| measured(&errors(nodes, Time::from_secs_f64(20.0), Reporting::Firmware), 2).mean();
        let (one, all) = (mean(Nodes::One(Rank(13))), mean(Nodes::All));
        assert!(all - 1.0 > 10.0 * (one - 1.0), "{one} {all}");
    }

    #[test]
    fn the_mean_and_its_error_are_those_of_the_ratios() {
        let times = [100, 120, 140].map(Time::from_nanos).to_vec();
        let slowdown = Slowdown { undisturbed: Time::from_nanos(100), disturbed: times };
        assert!((slowdown.mean() - 1.2).abs() < 1e-12);
        assert!((slowdown.standard_error() - 0.2 / 3_f64.sqrt()).abs() < 1e-12);
    }
}
