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

/// Runs a scenario on a machine with this allocator, from a seed, for this time.
type Simulate = dyn Fn(&Scenario, MachineAllocator, u64, Duration) -> Run + Sync;

/// Runs scenarios.
pub struct Runner<'a> {
    /// [`simulate`], or a fake of it.
    simulate: &'a Simulate,
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
            simulate: &simulate,
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

    /// Returns a runner that simulates nothing.
    #[cfg(test)]
    pub fn fake(simulate: &'a Simulate, effort: Effort) -> Self {
        Self { simulate, ..Self::new(effort, MachineAllocator::Buddy, &|_, _| {}) }
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
        let without = &baselines[&name(scenario)];
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
                        result.set((self.simulate)(scenario, self.allocator, seed, time)).expect("each is run once");
                        *self.simulated.lock().expect("no run panicked") += time;
                        (self.progress)(self.done.fetch_add(1, Ordering::Relaxed) + 1, all);
                    }
                });
            }
        });
        results.into_iter().map(|result| result.into_inner().expect("all were run")).collect()
    }
}

/// Returns the name of a scenario's baseline: that of all setups.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::fake::run;
    use super::super::scenario::Setup;
    use super::*;
    use rampart_sim::MachineStatistics;

    const fn seeds(seed: u64, seeds: u64) -> Effort {
        Effort { seed, seeds, longest: Duration::from_secs(40) }
    }

    fn scenario(machine: TestedMachine, programs: &[&'static str], setup: Setup) -> Scenario {
        Scenario { machine, programs: programs.to_vec(), setup: Some(setup) }
    }

    fn comet(programs: &[&'static str]) -> Scenario {
        scenario(TestedMachine::PentiumD, programs, Setup::comet())
    }

    /// The second program does as much work with tests as the number of its seed.
    #[test]
    fn a_slowdown_is_work_without_tests_over_work_with_them() {
        let simulate = |scenario: &Scenario, _, seed, _| match scenario.setup {
            None => run(vec![6.0, 8.0]),
            Some(_) => run(vec![3.0, if seed == 1 { 1.0 } else { 2.0 }]),
        };
        let runner = Runner::fake(&simulate, seeds(1, 2));
        let pair = comet(&["mcf", "lbm"]);
        let runs = runner.run(&pair);
        assert_eq!(runner.slowdown_by_seed(&pair, &runs), Some(vec![f64::midpoint(2.0, 8.0), f64::midpoint(2.0, 4.0)]));
        assert_eq!(runner.slowdown(&pair, &runs), Some(4.0));
        assert_eq!(runner.slowdown_of_each(&pair, &runs), [Some(2.0), Some(6.0)]);
    }

    #[test]
    fn nothing_is_as_slow_as_a_program_that_stands_still_or_has_no_memory() {
        let simulate = |scenario: &Scenario, _, seed, _| {
            let (is_tested, is_first) = (scenario.setup.is_some(), seed == 1);
            let work = if scenario.programs[1] == "gcc" && is_tested && is_first { 0.0 } else { 1.0 };
            let out_of_memory = match scenario.programs[1] {
                "lbm" => is_tested,
                "mcf" => !is_tested,
                _ => false,
            };
            Run { out_of_memory, ..run(vec![1.0, work]) }
        };
        let runner = Runner::fake(&simulate, seeds(1, 2));
        for (program, each) in [("lbm", [None; 2]), ("mcf", [None; 2]), ("gcc", [Some(1.0), None])] {
            let pair = comet(&["povray", program]);
            let runs = runner.run(&pair);
            assert_eq!(runner.slowdown(&pair, &runs), None, "{program}");
            assert_eq!(runner.slowdown_by_seed(&pair, &runs), None, "{program}");
            assert_eq!(runner.slowdown_of_each(&pair, &runs), each, "{program}");
        }
    }

    #[test]
    fn each_scenario_runs_once_for_each_seed_and_each_baseline_once_for_all_setups() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let simulate = {
            let seen = Arc::clone(&seen);
            move |scenario: &Scenario, allocator, seed, time| {
                assert_eq!(allocator, MachineAllocator::Adaptive);
                let policy = scenario.setup.as_ref().map_or("none", |setup| setup.policy.as_str());
                seen.lock().unwrap().push(format!("{} {policy} {seed} {time:?}", scenario.programs[0]));
                run(vec![1.0])
            }
        };
        let progress = Mutex::new(Vec::new());
        let count = |done, all| progress.lock().unwrap().push((done, all));
        let runner =
            Runner { simulate: &simulate, ..Runner::new(seeds(u64::MAX, 2), MachineAllocator::Adaptive, &count) };
        let on_demand = scenario(TestedMachine::PentiumD, &["mcf"], Setup::on_demand());
        let adaptive = scenario(TestedMachine::T620, &["lbm"], Setup::adaptive());
        assert_eq!(runner.run_all(&[comet(&["mcf"]), on_demand, adaptive.clone()]).len(), 3);
        assert_eq!(runner.run_all(&[comet(&["mcf"]), adaptive]).len(), 2);

        let last = u64::MAX;
        let mut expected: Vec<String> = ["mcf none", "mcf comet", "mcf on-demand", "mcf comet"]
            .into_iter()
            .flat_map(|name| [last, 0].map(|seed| format!("{name} {seed} 40s")))
            .chain(["none", "adaptive", "adaptive"].into_iter().flat_map(|policy| {
                // The server runs for a tenth of the time.
                [last, 0].map(|seed| format!("lbm {policy} {seed} 4s"))
            }))
            .collect();
        let mut seen = seen.lock().unwrap().clone();
        expected.sort();
        seen.sort();
        assert_eq!(seen, expected);
        let mut progress = progress.lock().unwrap().clone();
        progress.sort_unstable();
        assert_eq!(
            progress,
            (1..=10).map(|done| (done, 10)).chain((11..=14).map(|done| (done, 14))).collect::<Vec<_>>()
        );
        assert_eq!(runner.simulated(), Duration::from_secs(8 * 40 + 6 * 4));
        let of_policy = |one: PolicySummary| (one.policy, one.scenarios, one.slowdown);
        let expected =
            [("no tests", 2, None), ("on-demand", 1, Some(1.0)), ("comet", 2, Some(1.0)), ("adaptive", 2, Some(1.0))];
        assert_eq!(runner.summary().into_iter().map(of_policy).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn means_and_counts_are_those_of_all_seeds() {
        let simulate = |_: &Scenario, _, seed: u64, _| Run {
            coverage: if seed == 7 { 0.25 } else { 0.75 },
            machine: MachineStatistics { allocated: seed, ..MachineStatistics::default() },
            ..run(vec![1.0])
        };
        let runs = Runner::fake(&simulate, seeds(7, 2)).run(&comet(&["mcf"]));
        assert_eq!(runs.mean(|run| run.coverage), 0.5);
        assert_eq!((runs.count(|seen| seen.allocated), runs.first().machine.allocated), (7 + 8, 7));
    }
}
