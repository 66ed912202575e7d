//! Runs the scenarios of an experiment in parallel, for each seed, each with its baseline without testing.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rampart_sim::{MachineAllocator, MachineStatistics};

use super::Effort;
use super::outcome::{PolicySummary, mean};
use super::scenario::{Scenario, TestedMachine};
use super::simulate::{Run, simulate};
use super::summary::Summary;

/// The runs of one scenario, one for each seed.
#[derive(Clone, Debug)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// Returns the mean over the seeds.
    pub fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        mean(self.0.iter().map(of)).expect("at least one seed")
    }

    /// Returns a count of the machines, summed over the seeds.
    pub fn count(&self, of: impl Fn(&MachineStatistics) -> u64) -> u64 {
        self.0.iter().map(|run| of(&run.machine)).sum()
    }

    /// Returns the run of the first seed, for results second by second.
    pub fn first(&self) -> &Run {
        &self.0[0]
    }
}

/// Runs scenarios.
pub struct Runner<'a> {
    effort: Effort,
    allocator: MachineAllocator,
    progress: &'a (dyn Fn(usize, usize) + Sync),
    /// Runs without testing, by machine and programs.
    baselines: Mutex<HashMap<String, Runs>>,
    simulated: Mutex<Duration>,
    summary: Mutex<Summary>,
    begun: AtomicUsize,
    done: AtomicUsize,
}

impl<'a> Runner<'a> {
    pub fn new(effort: Effort, allocator: MachineAllocator, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self {
            effort,
            allocator,
            progress,
            baselines: Mutex::default(),
            simulated: Mutex::default(),
            summary: Mutex::default(),
            begun: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        }
    }

    /// Returns the simulated time so far, summed over all runs.
    pub fn simulated(&self) -> Duration {
        *self.simulated.lock().expect("no run panicked")
    }

    /// Runs one scenario.
    pub fn run(&self, scenario: &Scenario) -> Runs {
        self.run_all(std::slice::from_ref(scenario)).pop().expect("one scenario")
    }

    /// Runs all scenarios, and the baselines without testing that are missing.
    pub fn run_all(&self, scenarios: &[Scenario]) -> Vec<Runs> {
        let mut missing: Vec<Scenario> = Vec::new();
        for scenario in scenarios {
            let baseline = Scenario { setup: None, ..scenario.clone() };
            let known = self.baselines.lock().expect("no run panicked").contains_key(&name(&baseline));
            if !known && !missing.contains(&baseline) {
                missing.push(baseline);
            }
        }
        let all: Vec<Scenario> = missing.iter().chain(scenarios).cloned().collect();
        let mut runs = self.for_each_seed(&all);
        let requested = runs.split_off(missing.len());
        let mut summary = self.summary.lock().expect("no run panicked");
        missing.iter().zip(&runs).for_each(|(scenario, runs)| summary.add(scenario, &runs.0, None));
        let baselines = missing.iter().map(name).zip(runs);
        self.baselines.lock().expect("no run panicked").extend(baselines);
        for (scenario, runs) in scenarios.iter().zip(&requested) {
            summary.add(scenario, &runs.0, self.slowdown(scenario, runs));
        }
        requested
    }

    /// Returns what the runs so far have in common, by policy.
    pub fn summary(&self) -> Vec<PolicySummary> {
        self.summary.lock().expect("no run panicked").by_policy()
    }

    /// Returns time with testing over time without, averaged over the programs and the seeds; `None` if memory ran out
    /// or a program made no progress.
    pub fn slowdown(&self, scenario: &Scenario, runs: &Runs) -> Option<f64> {
        mean(self.slowdown_by_seed(scenario, runs)?)
    }

    /// Returns the slowdown for each seed.
    pub fn slowdown_by_seed(&self, scenario: &Scenario, runs: &Runs) -> Option<Vec<f64>> {
        let of_seed = |each: Vec<Option<f64>>| mean(each.into_iter().collect::<Option<Vec<f64>>>()?);
        self.ratios(scenario, runs).into_iter().map(of_seed).collect()
    }

    /// Returns the slowdown of each program, averaged over the seeds.
    pub fn slowdown_of_each(&self, scenario: &Scenario, runs: &Runs) -> Vec<Option<f64>> {
        let ratios = self.ratios(scenario, runs);
        let of_program = |at: usize| mean(ratios.iter().map(|each| each[at]).collect::<Option<Vec<f64>>>()?);
        (0..scenario.programs.len()).map(of_program).collect()
    }

    /// Returns work without testing over work with it, by seed and program.
    fn ratios(&self, scenario: &Scenario, runs: &Runs) -> Vec<Vec<Option<f64>>> {
        let baselines = self.baselines.lock().expect("no run panicked");
        let without = &baselines[&name(&Scenario { setup: None, ..scenario.clone() })];
        let of_seed = |(without, with): (&Run, &Run)| {
            let possible = !with.out_of_memory && !without.out_of_memory;
            let ratio = |(without, with): (&f64, &f64)| (possible && *with > 0.0).then(|| without / with);
            without.work.iter().zip(&with.work).map(ratio).collect()
        };
        without.0.iter().zip(&runs.0).map(of_seed).collect()
    }

    fn for_each_seed(&self, scenarios: &[Scenario]) -> Vec<Runs> {
        let seeds = || self.effort.seeds();
        let jobs: Vec<(&Scenario, u64)> =
            scenarios.iter().flat_map(|scenario| seeds().map(move |seed| (scenario, seed))).collect();
        let runs = self.in_parallel(&jobs);
        runs.chunks(seeds().count()).map(|runs| Runs(runs.to_vec())).collect()
    }

    fn in_parallel(&self, jobs: &[(&Scenario, u64)]) -> Vec<Run> {
        let all = self.begun.fetch_add(jobs.len(), Ordering::Relaxed) + jobs.len();
        let results: Vec<OnceLock<Run>> = jobs.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let claim = || {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        jobs.get(at).zip(results.get(at))
                    };
                    while let Some((&(scenario, seed), result)) = claim() {
                        let time = time(scenario, &self.effort);
                        result.set(simulate(scenario, self.allocator, seed, time)).expect("each is run once");
                        *self.simulated.lock().expect("no run panicked") += time;
                        (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1, all);
                    }
                });
            }
        });
        results.into_iter().map(|result| result.into_inner().expect("all were run")).collect()
    }
}

fn name(scenario: &Scenario) -> String {
    format!("{:?} {}", scenario.machine, scenario.programs.join(" "))
}

/// Returns how long a scenario runs. The server allocates a hundred times as many frames per second as the desktop, and
/// the short-lived pages that Asteroid's experiments are about live for seconds, so a tenth of the time suffices.
fn time(scenario: &Scenario, effort: &Effort) -> Duration {
    match scenario.machine {
        TestedMachine::PentiumD => effort.longest,
        TestedMachine::T620 => effort.longest / 10,
    }
}
