//! Rahman's experiments on the simulated machine [Rahman16, 4.2 and 5.3].
//!
//! **Problem.** The value of a policy shows only with programs, allocators and memory of known behaviour, over hours.
//! **Idea.** Run the controller of the product on `rampart-sim`, which simulates Rahman's machines and programs. An
//! experiment is data: programs, setups and comparisons. Each result is printed beside Rahman's number. **Why this
//! way.** The model is calibrated on a few points that `rampart-sim` and [`Setup`] name; the remarks of the experiments
//! that have these points among their results say so. The outcome reports where our results differ in shape from
//! Rahman's.

#![forbid(unsafe_code)]

mod asteroid;
mod comet;
#[cfg(test)]
mod fake;
mod outcome;
mod rahman;
mod runs;
mod scenario;
mod simulate;
mod summary;
mod text;

use std::time::Duration;

use serde::Serialize;

pub use outcome::{Measure, PolicySummary, StudyChart, StudyClaim, StudyOutcome, Table, TableCell};
pub use rampart_sim::MachineAllocator;
pub use scenario::{Rule, Scenario, Setup, TestedMachine};

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of consecutive seeds from `seed` on, at least 1: each result is a mean over them.
    pub seeds: u64,
    /// Simulated time of one run on the desktop, at least [`Self::SHORTEST`]; on the server a tenth of it. Programs
    /// that end sooner start again.
    pub longest: Duration,
}

impl Effort {
    /// The shortest useful time: two seconds on the server, one of which is sampled.
    pub const SHORTEST: Duration = Duration::from_secs(20);

    /// Returns an effort long enough for three lifetimes of a test.
    #[must_use]
    pub const fn full() -> Self {
        Self { seed: 1, seeds: 1, longest: Duration::from_secs(600) }
    }

    /// Returns an effort long enough to see an order, for tests.
    #[must_use]
    pub const fn short() -> Self {
        Self { seed: 1, seeds: 1, longest: Duration::from_secs(60) }
    }

    fn seeds(&self) -> impl Iterator<Item = u64> {
        let first = self.seed;
        (0..self.seeds).map(move |next| first.wrapping_add(next))
    }
}

/// One experiment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Its place in Rahman's work.
    pub source: &'static str,
    #[serde(skip)]
    make: fn(&runs::Runner<'_>) -> Findings,
}

/// The results of an experiment, without its name.
struct Findings {
    tables: Vec<Table>,
    claims: Vec<StudyClaim>,
    remarks: Vec<&'static str>,
}

impl Experiment {
    /// Runs the experiment on machines with this page allocator. Calls `progress` with the number of finished runs
    /// and of all runs.
    #[must_use]
    pub fn run(
        &self,
        effort: &Effort,
        allocator: MachineAllocator,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> StudyOutcome {
        let runner = runs::Runner::new(*effort, allocator, progress);
        let Findings { tables, claims, remarks } = (self.make)(&runner);
        StudyOutcome {
            schema: "rampart.experiment/1",
            experiment: self.name,
            source: self.source,
            allocator: allocator.name(),
            seed: effort.seed,
            seeds: effort.seeds,
            simulated_seconds: runner.simulated().as_secs_f64(),
            tables,
            policies: runner.summary(),
            claims,
            remarks,
        }
    }
}

/// Returns the experiment of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter().find(|experiment| experiment.name == name)
}

/// All experiments, in Rahman's order.
pub static ALL: [Experiment; 15] = [
    Experiment {
        name: "figure11",
        shows: "page coverage of testing on demand and of COMeT, over 28 SPEC programs",
        source: "[Rahman16, fig. 11, 4.2.2]",
        make: comet::figure_11,
    },
    Experiment {
        name: "figure12",
        shows: "slowdown by testing on demand and by COMeT, over 28 SPEC programs",
        source: "[Rahman16, fig. 12, 4.2.2]",
        make: comet::figure_12,
    },
    Experiment {
        name: "window",
        shows: "slowdown by COMeT with vulnerability windows of 2, 3 and 4 minutes",
        source: "[Rahman16, 4.2.3]",
        make: comet::window,
    },
    Experiment {
        name: "delta",
        shows: "slowdown by COMeT with the guarantee timer at 5, 10, 20 and 30 s",
        source: "[Rahman16, 4.2.3]",
        make: comet::delta,
    },
    Experiment {
        name: "figure14",
        shows: "slowdown by COMeT with replenish-δ at 15, 25, 35 and 45 ms",
        source: "[Rahman16, fig. 14, 4.2.3]",
        make: comet::figure_14,
    },
    Experiment {
        name: "figure15",
        shows: "page coverage with migration and without",
        source: "[Rahman16, fig. 15, 4.2.4]",
        make: comet::figure_15,
    },
    Experiment {
        name: "figure16",
        shows: "slowdown with fixed rates (Min, Max, Application) and COMeT's adaptive ones",
        source: "[Rahman16, fig. 16, 4.2.4]",
        make: comet::figure_16,
    },
    Experiment {
        name: "table5",
        shows: "slowdown by COMeT under overload: one to five instances on two cores",
        source: "[Rahman16, tab. 5, 4.2.5]",
        make: comet::table_5,
    },
    Experiment {
        name: "figure17",
        shows: "slowdown by COMeT as the test takes longer: one to five iterations",
        source: "[Rahman16, fig. 17, 4.2.6]",
        make: comet::figure_17,
    },
    Experiment {
        name: "figure24",
        shows: "slowdown by COMeT on 16 cores, over the number of instances",
        source: "[Rahman16, fig. 24, 5.0]",
        make: asteroid::figure_24,
    },
    Experiment {
        name: "figure31",
        shows: "what each optimization of the testers is worth, one after the other",
        source: "[Rahman16, fig. 31, 5.3.2]",
        make: asteroid::figure_31,
    },
    Experiment {
        name: "figure32",
        shows: "slowdown with blocks dispatched to any tester and to one of their own node",
        source: "[Rahman16, fig. 32, 5.3.2]",
        make: asteroid::figure_32,
    },
    Experiment {
        name: "tables8and9",
        shows: "slowdown by Adaptive and by sixteen fixed configurations, on L1 to H2",
        source: "[Rahman16, tab. 8 and 9, 5.3.3]",
        make: asteroid::tables_8_and_9,
    },
    Experiment {
        name: "figure33",
        shows: "slowdown, patterns and threads of Adaptive beside the best and the worst Fix",
        source: "[Rahman16, fig. 33, 5.3.4]",
        make: asteroid::figure_33,
    },
    Experiment {
        name: "figure34",
        shows: "Adaptive on H2: each program's slowdown, and demand and testing second by second",
        source: "[Rahman16, fig. 34, 5.3.5]",
        make: asteroid::figure_34,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_is_found_by_its_name_only() {
        for experiment in &ALL {
            assert_eq!(find(experiment.name).map(|found| found.source), Some(experiment.source));
        }
        assert!(find("figure13").is_none());
    }
}
