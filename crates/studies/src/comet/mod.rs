//! [Rahman16, ch. 4]: COMeT beside testing on demand, on a machine with two cores and 1 GB.

mod configuration;
mod guarantee;
mod load;
mod overall;

use rampart_sim::workload::SPEC;

use super::outcome::{Measure, Table, TableCell, mean};
use super::runs::{Runner, Runs};
use super::scenario::{Scenario, Setup, TestedMachine};

pub use configuration::{delta, figure_14, window};
pub use guarantee::{figure_15, figure_16};
pub use load::{figure_17, table_5};
pub use overall::{figure_11, figure_12};

fn spec() -> Vec<&'static str> {
    SPEC.iter().map(|program| program.name).collect()
}

fn alone(program: &'static str, setup: Setup) -> Scenario {
    Scenario { machine: TestedMachine::PentiumD, programs: vec![program], setup: Some(setup) }
}

/// A row for each program, a number for each setup.
type Values = Vec<Vec<Option<f64>>>;

/// Runs each program with each setup, and returns the result of `measure` for each run.
fn measured(
    runner: &Runner<'_>,
    programs: &[&'static str],
    setups: &[Setup],
    measure: impl Fn(&Scenario, &Runs) -> Option<f64>,
) -> Values {
    let scenarios: Vec<Scenario> =
        programs.iter().flat_map(|&program| setups.iter().map(move |setup| alone(program, setup.clone()))).collect();
    let runs = runner.run_all(&scenarios);
    let values: Vec<_> = scenarios.iter().zip(&runs).map(|(scenario, runs)| measure(scenario, runs)).collect();
    values.chunks(setups.len()).map(<[_]>::to_vec).collect()
}

fn slowdowns(runner: &Runner<'_>, programs: &[&'static str], setups: &[Setup]) -> Values {
    measured(runner, programs, setups, |scenario, runs| runner.slowdown(scenario, runs))
}

fn coverages(runner: &Runner<'_>, programs: &[&'static str], setups: &[Setup]) -> Values {
    measured(runner, programs, setups, |_, runs| Some(runs.mean(|run| run.coverage)))
}

/// Returns a table of programs and their average, with Rahman's numbers where `known` returns one.
fn table(
    measure: Measure,
    programs: &[&str],
    columns: &[&str],
    values: &[Vec<Option<f64>>],
    known: impl Fn(&str, usize) -> Option<f64>,
) -> Table {
    let row = |name: &str, values: &[Option<f64>]| {
        let cells = values.iter().enumerate();
        (name.to_owned(), cells.map(|(at, &ours)| TableCell { ours, published: known(name, at) }).collect())
    };
    let title = match measure {
        Measure::Coverage => "Page coverage",
        _ => "Slowdown",
    };
    let average: Vec<Option<f64>> =
        (0..columns.len()).map(|at| mean(values.iter().filter_map(|row| row[at]))).collect();
    let rows = programs.iter().zip(values).map(|(name, values)| row(name, values));
    Table::bars(title, measure, "program", columns.iter().copied(), rows.chain([row("average", &average)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_of_the_programs_that_have_a_number() {
        let values = [vec![Some(1.0), Some(4.0)], vec![Some(2.0), None]];
        let known = |name: &str, at| (name == "average").then_some([7.0, 8.0][at]);
        let of = |measure| table(measure, &["mcf", "lbm"], &["one", "two"], &values, known);
        let table = of(Measure::Coverage);
        assert_eq!((&*table.title, of(Measure::Slowdown).title.as_str()), ("Page coverage", "Slowdown"));
        assert_eq!((table.printed("mcf"), table.printed("lbm")), ("1.000 4.000".into(), "2.000 -".into()));
        assert_eq!(table.printed("average"), "1.500 4.000");
        assert_eq!(table.published(), [("average", "one", 7.0), ("average", "two", 8.0)]);
    }

    #[test]
    fn each_program_of_spec_runs_once() {
        assert_eq!((spec().len(), spec()[0], spec().contains(&"mcf")), (28, "povray", true));
    }
}
