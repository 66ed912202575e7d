//! Fake runs: what an experiment makes of its results is tested without a simulated machine.

use super::outcome::Table;
use super::runs::Runner;
use super::scenario::{Scenario, Setup};
use super::simulate::Run;
use super::{Effort, Findings};

/// One number for each run.
pub const ONE_SEED: Effort = Effort { seed: 1, seeds: 1, longest: Effort::SHORTEST };

/// Returns a run in which each program did this much work.
pub fn run(work: Vec<f64>) -> Run {
    Run {
        work,
        out_of_memory: false,
        coverage: 0.0,
        patterns: 0.0,
        threads: 0.0,
        asked: Vec::new(),
        empty_banks: 0.0,
        offline_banks: None,
        timeline: Vec::new(),
        machine: rampart_sim::MachineStatistics::default(),
    }
}

/// Returns a run of a scenario that is slowed this much by its setup; `None`: its programs stand still.
pub fn slowed(scenario: &Scenario, slowdown: impl Fn(&Setup) -> Option<f64>) -> Run {
    let work = scenario.setup.as_ref().map_or(1.0, |setup| slowdown(setup).map_or(0.0, |slowdown| 1.0 / slowdown));
    run(vec![work; scenario.programs.len()])
}

/// Returns what an experiment finds if its runs are these.
pub fn findings(make: fn(&Runner<'_>) -> Findings, simulate: impl Fn(&Scenario) -> Run + Sync + 'static) -> Findings {
    make(&Runner::fake(&move |scenario, _, _, _| simulate(scenario), ONE_SEED))
}

/// Returns what an experiment finds if each scenario is slowed this much by its setup.
pub fn with_slowdowns(
    make: fn(&Runner<'_>) -> Findings,
    slowdown: impl Fn(&Scenario, &Setup) -> Option<f64> + Sync + 'static,
) -> Findings {
    findings(make, move |scenario| slowed(scenario, |setup| slowdown(scenario, setup)))
}

impl Findings {
    /// Returns which claims hold.
    pub fn hold(&self) -> Vec<bool> {
        self.claims.iter().map(|claim| claim.holds).collect()
    }
}

impl Table {
    /// Returns Rahman's numbers in the table, each with its row and column.
    pub fn published(&self) -> Vec<(&str, &str, f64)> {
        let cells = self.rows.iter().flat_map(|(row, cells)| cells.iter().zip(&self.columns).map(move |at| (row, at)));
        cells.filter_map(|(row, (cell, column))| Some((&**row, &**column, cell.published?))).collect()
    }

    /// Returns our numbers in a row, as they are printed.
    pub fn printed(&self, row: &str) -> String {
        let (_, cells) = self.rows.iter().find(|(name, _)| name == row).expect("a row of this table");
        let ours = cells.iter().map(|cell| cell.ours.map_or_else(|| "-".to_owned(), |ours| format!("{ours:.3}")));
        ours.collect::<Vec<_>>().join(" ")
    }
}
