//! A job with replicas, simulated failure by failure: the check of the model.
//!
//! **Problem.** The model replaces a job with replicas, whose risk grows until it restarts, by one that fails at a
//! constant rate. **Idea.** Simulate the job itself: each node fails at its own rate; a rank is lost with its last
//! replica; then the job restarts on good nodes from its last checkpoint. **Why this way.** While k nodes are alive,
//! the next failure comes after an exponential time with mean θ / k and hits each of them alike. So a run takes a few
//! draws per failure and one per segment, and not one per node.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Completion, ReplicatedJob};
use crate::error::Error;
use crate::statistics::confidence::student;
use crate::statistics::parallel_runs::ParallelRuns;
use crate::time::Hours;

/// A simulated job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedJob {
    /// The time to completion.
    pub total: Hours,
    /// How often the job failed: all replicas of some rank were gone.
    pub failures: u64,
    /// How many nodes failed.
    pub node_failures: u64,
}

/// Many simulated jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedMean {
    /// The number of runs.
    pub runs: u64,
    /// The mean time to completion.
    pub total: Hours,
    /// Half of the interval that contains the mean with 95 %.
    pub half: Hours,
    /// Failures of a job, in the mean.
    pub failures: f64,
}

/// The nodes of a job, and which of them are alive.
struct ReplicaNodes {
    ranks: u32,
    degree: u32,
    mtbf: f64,
    /// For each rank that lost a replica, a bit for each that is lost.
    lost: HashMap<u32, u8>,
    /// How many nodes are lost.
    lost_nodes: u32,
    /// How many failed since the start.
    failures: u64,
}

impl ReplicaNodes {
    /// Lets time pass; if a rank is lost within `hours`, returns when.
    fn pass(&mut self, hours: f64, dice: &mut impl FnMut() -> f64) -> Option<f64> {
        let mut at = 0.0;
        loop {
            let alive = f64::from(self.ranks) * f64::from(self.degree) - f64::from(self.lost_nodes);
            // Dice may show 0, whose logarithm is infinite.
            at -= libm::log1p(-dice()) * self.mtbf / alive;
            if at >= hours {
                return None;
            }
            if self.fail_one(dice) {
                return Some(at);
            }
        }
    }

    /// One of the living nodes fails. Returns whether its rank is lost with it.
    fn fail_one(&mut self, dice: &mut impl FnMut() -> f64) -> bool {
        let mut draw = |sides: u32| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to below `sides`")]
            let side = (dice() * f64::from(sides)) as u32;
            side.min(sides - 1)
        };
        loop {
            let (rank, replica) = (draw(self.ranks), draw(self.degree));
            let lost = self.lost.entry(rank).or_default();
            if *lost & (1 << replica) != 0 {
                continue;
            }
            *lost |= 1 << replica;
            self.lost_nodes += 1;
            self.failures += 1;
            return lost.count_ones() == self.degree;
        }
    }

    /// All nodes are good again.
    fn renew(&mut self) {
        self.lost.clear();
        self.lost_nodes = 0;
    }
}

impl ReplicatedJob {
    /// Simulates the job with as many replicas and segments as `plan` has. Each of the `dice` shows a number from 0 to
    /// below 1. `None` if that takes more than `most` steps, each a segment or a restart, also those that fail.
    pub fn simulated(&self, plan: &Completion, most: u64, dice: &mut impl FnMut() -> f64) -> Option<SimulatedJob> {
        let mut nodes = ReplicaNodes {
            ranks: self.nodes,
            degree: u32::from(plan.degree.get()),
            mtbf: self.node_mtbf.get(),
            lost: HashMap::new(),
            lost_nodes: 0,
            failures: 0,
        };
        let work = self.running(plan.degree).get() / plan.segments;
        let (mut done, mut restarting, mut total, mut failures) = (0.0, false, 0.0, 0);
        for _ in 0..most {
            let is_last = done + 1.0 >= plan.segments;
            let length = match (restarting, is_last) {
                (true, _) => self.restart.get(),
                (false, true) => work,
                (false, false) => work + self.checkpoint.get(),
            };
            if let Some(lost_after) = nodes.pass(length, dice) {
                total += lost_after;
                failures += 1;
                nodes.renew();
                restarting = true;
                continue;
            }
            total += length;
            if !restarting && is_last {
                return Some(SimulatedJob { total: Hours::new(total), failures, node_failures: nodes.failures });
            }
            done += if restarting { 0.0 } else { 1.0 };
            restarting = false;
        }
        None
    }

    /// Simulates the job `runs` times, and returns the mean. A seed is one result, on any number of threads. `None` if
    /// a run would take more than ten million segments and restarts.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn simulated_mean(
        &self,
        plan: &Completion,
        runs: u64,
        seed: u64,
        parallel: &ParallelRuns,
    ) -> Result<Option<SimulatedMean>, Error> {
        const MOST: u64 = 10_000_000;
        let run = |number: u64| {
            if parallel.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(number);
            Ok(self.simulated(plan, MOST, &mut || random.random::<f64>()))
        };
        let jobs: Option<Vec<SimulatedJob>> = parallel.make(runs, &run)?.into_iter().collect();
        Ok(jobs.filter(|jobs| !jobs.is_empty()).map(|jobs| mean(&jobs)))
    }
}

/// The mean of at least one job.
fn mean(jobs: &[SimulatedJob]) -> SimulatedMean {
    #[expect(clippy::cast_precision_loss, reason = "counts of runs and of failures")]
    let (count, failures) = (jobs.len() as f64, jobs.iter().map(|job| job.failures).sum::<u64>() as f64);
    let total = jobs.iter().map(|job| job.total.get()).sum::<f64>() / count;
    let squares: f64 = jobs.iter().map(|job| (job.total.get() - total).powi(2)).sum();
    let error = (squares / (count - 1.0).max(1.0) / count).sqrt();
    SimulatedMean {
        runs: jobs.len() as u64,
        total: Hours::new(total),
        half: Hours::new(student(jobs.len()) * error),
        failures: failures / count,
    }
}
