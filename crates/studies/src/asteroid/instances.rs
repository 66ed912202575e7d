//! [Rahman16, fig. 24]: the number of programs that one tester without the optimizations keeps up with.

use rampart_memory::Fidelity;

use super::super::outcome::{Measure, StudyClaim, Table, TableCell};
use super::super::runs::Runner;
use super::super::scenario::{Scenario, Setup, TestedMachine, patterns};
use super::super::{Findings, rahman};
use super::{on_t620, slowdowns};

/// Fidelity is the number of patterns in this figure [Rahman16, 5.0], as in [Rahman16, fig. 31], where 8 is Fix1.8's;
/// the least here are the two of MATS.
fn of_patterns(count: u32) -> Fidelity {
    if count == 1 { Fidelity::MIN } else { patterns(count) }
}

pub fn figure_24(runner: &Runner<'_>) -> Findings {
    let programs = ["milc", "bwaves", "perlbench"];
    let instances = [1, 2, 4, 5, 6, 8, 10, 12];
    let columns: Vec<(&'static str, u32)> =
        [1, 8].into_iter().flat_map(|fidelity| programs.map(|program| (program, fidelity))).collect();
    let scenarios: Vec<Scenario> = instances
        .into_iter()
        .flat_map(|count| {
            columns.iter().map(move |&(program, fidelity)| {
                on_t620(vec![program; count], Setup::comet_on(TestedMachine::T620, of_patterns(fidelity)))
            })
        })
        .collect();
    let values = slowdowns(runner, &scenarios);
    let known = |count, (program, fidelity)| {
        let point = rahman::FIGURE_24.into_iter().find(|&(p, f, c, _)| (p, f, c) == (program, fidelity, count));
        point.map(|(.., slowdown)| slowdown)
    };
    let rows = instances.into_iter().zip(values.chunks(columns.len())).map(|(count, row)| {
        let cells =
            row.iter().zip(&columns).map(|(&ours, &column)| TableCell { ours, published: known(count, column) });
        (count.to_string(), cells.collect())
    });
    let names = columns.iter().map(|(program, fidelity)| format!("{program} f={fidelity}"));
    let table = Table::lines("Slowdown by COMeT", Measure::Slowdown, "instances", names, rows);
    // A program that makes no progress never ends.
    let of = |count: &str, column: &str| table.ours(count, column).unwrap_or(f64::INFINITY);
    let rises = table.columns.iter().filter(|column| of("12", column) > of("1", column)).count();
    let earlier = programs.iter().filter(|p| of("8", &format!("{p} f=8")) >= of("8", &format!("{p} f=1"))).count();
    let claims = vec![
        StudyClaim::new(
            "one tester without the optimizations cannot keep up with many instances (5.0)",
            rises == columns.len(),
            format!("slower at 12 instances than at 1 for {rises} of {} curves", columns.len()),
        ),
        StudyClaim::new(
            "a higher fidelity is too slow for fewer instances (5.0)",
            earlier == programs.len(),
            format!("for {earlier} of 3 programs at 8 instances"),
        ),
    ];
    let remarks = vec![
        "a run of one minute holds a third of a lifetime: whether the pages of a program come to be re-placed in it is chance, and \
         curves are less smooth than over Rahman's hours",
    ];
    Findings { tables: vec![table], claims, remarks }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake::with_slowdowns;
    use super::*;

    /// The slowdown by the program, its instances, and the number of patterns.
    fn by(slowdown: fn(&str, usize, u32) -> Option<f64>) -> Findings {
        with_slowdowns(figure_24, move |scenario, setup| {
            let patterns = setup.settings.limits.min_fidelity.patterns();
            slowdown(scenario.programs[0], scenario.programs.len(), patterns)
        })
    }

    #[test]
    fn each_point_of_the_thesis_stands_at_its_program_fidelity_and_instances() {
        let found = by(|_, instances, patterns| Some(if patterns == 2 || instances < 8 { 1.0 } else { 2.0 }));
        let table = &found.tables[0];
        let published = [("4", "perlbench f=8", 1.10), ("8", "perlbench f=1", 1.10), ("12", "milc f=8", 1.84)];
        assert_eq!(table.published(), published);
        assert_eq!(
            (table.printed("6"), table.printed("8")),
            (["1.000"; 6].join(" "), { "1.000 1.000 1.000 2.000 2.000 2.000".into() })
        );
        assert_eq!(found.hold(), [false, true]);
        assert_eq!(found.claims[0].because, "slower at 12 instances than at 1 for 3 of 6 curves");
    }

    #[test]
    fn a_program_that_stands_still_is_as_slow_as_can_be() {
        let still = by(|_, instances, patterns| (instances < 8 || patterns == 2).then_some(f64::from(patterns)));
        assert_eq!(
            (still.hold(), &*still.claims[1].because),
            (vec![false, true], "for 3 of 3 programs at 8 instances")
        );
        let rises = by(|program, instances, patterns| {
            let fidelity = if program == "milc" { 2.0 / f64::from(patterns) } else { 1.0 };
            Some(fidelity * if instances == 12 { 2.0 } else { 1.0 })
        });
        assert_eq!(
            (rises.hold(), &*rises.claims[1].because),
            (vec![true, false], "for 2 of 3 programs at 8 instances")
        );
    }
}
