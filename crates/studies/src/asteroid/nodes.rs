//! [Rahman16, fig. 32]: the gain of testing each block on its own node.

use rampart_sim::workload::MIXES;

use super::super::Findings;
use super::super::outcome::{Measure, StudyClaim, Table, mean};
use super::super::runs::Runner;
use super::super::scenario::{Scenario, Setup};
use super::{on_t620, ours, slowdowns};
use rampart_diagnostic::control::ControlSettings;

pub fn figure_32(runner: &Runner<'_>) -> Findings {
    let own = Setup::fix(2, 8);
    let any = Setup { settings: ControlSettings { node_local: false, ..own.settings }, ..own.clone() };
    let scenarios: Vec<Scenario> =
        MIXES.into_iter().flat_map(|mix| [&any, &own].map(|setup| on_t620(mix.programs(), setup.clone()))).collect();
    let values = slowdowns(runner, &scenarios);
    let rows = MIXES.into_iter().zip(values.chunks(2)).map(|(mix, row)| (mix.name.to_owned(), ours(row)));
    let columns = ["any node", "own node"];
    let table = Table::bars("Slowdown with two testers", Measure::Slowdown, "workload", columns, rows);
    let [any, own] = columns.map(|column| mean(table.column(column).flatten()).unwrap_or(f64::NAN));
    let claims = vec![StudyClaim::new(
        "dispatch without regard to the node costs more (5.3.2)",
        any > own,
        format!("{any:.4} and {own:.4} on average"),
    )];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake::with_slowdowns;
    use super::*;

    fn by(any: f64, own: f64) -> Findings {
        with_slowdowns(figure_32, move |_, setup| {
            assert_eq!((setup.settings.limits.max_cores, setup.settings.limits.min_fidelity.patterns()), (2, 8));
            Some(if setup.settings.node_local { own } else { any })
        })
    }

    #[test]
    fn two_testers_dispatch_to_any_node_and_to_their_own() {
        let found = by(1.25, 1.125);
        assert_eq!((found.tables[0].printed("L1"), found.tables[0].rows.len()), ("1.250 1.125".to_owned(), 8));
        assert_eq!((found.hold(), &*found.claims[0].because), (vec![true], "1.2500 and 1.1250 on average"));
        assert_eq!(by(1.25, 1.25).hold(), [false]);
    }
}
