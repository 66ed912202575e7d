//! [Rahman16, ch. 5]: Asteroid, on a server with two nodes, 16 cores and 64 GB.

mod burst;
mod instances;
mod mixes;
mod nodes;
mod optimizations;

pub use burst::figure_34;
pub use instances::figure_24;
pub use mixes::{figure_33, tables_8_and_9};
pub use nodes::figure_32;
pub use optimizations::figure_31;

use super::outcome::TableCell;
use super::runs::Runner;
use super::scenario::{Scenario, Setup, TestedMachine};

fn on_t620(programs: Vec<&'static str>, setup: Setup) -> Scenario {
    Scenario { machine: TestedMachine::T620, programs, setup: Some(setup) }
}

fn slowdowns(runner: &Runner<'_>, scenarios: &[Scenario]) -> Vec<Option<f64>> {
    let runs = runner.run_all(scenarios);
    scenarios.iter().zip(&runs).map(|(scenario, runs)| runner.slowdown(scenario, runs)).collect()
}

fn ours(values: &[Option<f64>]) -> Vec<TableCell> {
    values.iter().map(|&ours| TableCell { ours, published: None }).collect()
}
