//! More programs than cores, and longer tests [Rahman16, 4.2.5 and 4.2.6, tab. 5, fig. 17].

use rampart_memory::Fidelity;

use super::super::outcome::{Measure, StudyClaim, Table, TableCell, range};
use super::super::runs::Runner;
use super::super::scenario::{Scenario, Setup, TestedMachine};
use super::super::{Findings, rahman};
use super::{alone, slowdowns};

/// The most instances in [Rahman16, tab. 5].
const INSTANCES: usize = 5;

pub fn table_5(runner: &Runner<'_>) -> Findings {
    let scenarios: Vec<Scenario> = rahman::TABLE_5
        .into_iter()
        .flat_map(|(program, _)| (1..=INSTANCES).map(move |count| (program, count)))
        .map(|(program, count)| Scenario { programs: vec![program; count], ..alone(program, Setup::comet()) })
        .collect();
    let runs = runner.run_all(&scenarios);
    let values: Vec<_> = scenarios.iter().zip(&runs).map(|(scenario, runs)| runner.slowdown(scenario, runs)).collect();
    let rows = rahman::TABLE_5.iter().zip(values.chunks(INSTANCES)).map(|((name, known), ours)| {
        let cells = ours.iter().zip(known).map(|(&ours, &published)| TableCell { ours, published });
        ((*name).to_owned(), cells.collect())
    });
    let columns = (1..=INSTANCES).map(|count| format!("{count} instances"));
    let table = Table::bars("Slowdown", Measure::Slowdown, "program", columns, rows);
    let remarks = vec![
        "memory runs out sooner here: three instances of lbm, 67.3 % of memory each by table 3, fit only if they have half of \
         that in common or on disk, which Rahman does not mention; povray's whole share is 14.9 %",
        "two instances are slowed more here: both cores run programs, so each second of the tester is taken from them",
    ];
    Findings { claims: claims_of_4_2_5(&table), tables: vec![table], remarks }
}

fn claims_of_4_2_5(table: &Table) -> Vec<StudyClaim> {
    let rows = || table.rows.iter().map(|(_, cells)| cells);
    let rises = |cells: &&Vec<TableCell>| {
        let possible: Vec<f64> = cells.iter().filter_map(|cell| cell.ours).collect();
        possible.last() >= possible.first()
    };
    let rising = rows().filter(rises).count();
    let (_, worst) = range(rows().flatten().filter_map(|cell| cell.ours));
    let agrees = |at: &usize| rows().all(|cells| cells[*at].ours.is_some() == cells[*at].published.is_some());
    let agreeing = (0..INSTANCES).filter(agrees).count();
    vec![
        StudyClaim::new(
            "slowdown rises with the load (4.2.5)",
            rising == table.rows.len(),
            format!("for {rising} of {} programs", table.rows.len()),
        ),
        StudyClaim::new("even the worst is acceptable: 1.14 (4.2.5)", worst <= 1.2, format!("{worst:.3}")),
        StudyClaim::new(
            "memory runs out where Rahman's did (table 5)",
            agreeing == INSTANCES,
            format!("{agreeing} of {INSTANCES} columns agree"),
        ),
    ]
}

pub fn figure_17(runner: &Runner<'_>) -> Findings {
    let programs = rahman::FIGURE_17_AT_5.map(|(name, _)| name);
    let setups =
        [1, 2, 3, 4, 5].map(|times| Setup::comet_on(TestedMachine::PentiumD, Fidelity::new(times).expect("1 to 5")));
    let values = slowdowns(runner, &programs, &setups);
    let rows = (0..setups.len()).map(|at| {
        let cells = rahman::FIGURE_17_AT_5.iter().zip(&values);
        let cells = cells.map(|((_, known), row)| TableCell { ours: row[at], published: (at == 4).then_some(*known) });
        ((at + 1).to_string(), cells.collect())
    });
    let table = Table::lines("Slowdown", Measure::Slowdown, "iterations", programs, rows);
    let [mcf, zeusmp, gromacs, calculix] = programs.map(|program| table.number("5", program));
    let claims = vec![
        StudyClaim::new(
            "a longer test slows programs more (4.2.6)",
            programs.iter().all(|program| table.number("5", program) >= table.number("1", program)),
            programs
                .map(|program| {
                    format!("{program} {:.3} to {:.3}", table.number("1", program), table.number("5", program))
                })
                .join(", "),
        ),
        StudyClaim::new(
            "mcf and zeusmp suffer most, gromacs and calculix less (4.2.6)",
            mcf.min(zeusmp) > gromacs.max(calculix),
            "at five iterations".to_owned(),
        ),
    ];
    let remarks = vec![
        "mcf and zeusmp fall off a cliff here where Rahman has 1.25: five iterations of 0.4 ms over mcf's 246,000 pages are \
         492 s of testing in each 170 s, on two cores; Rahman does not guarantee his bound when it is late (4.1.2), and here \
         a page that is late is tested before its program goes on",
    ];
    Findings { tables: vec![table], claims, remarks }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake::with_slowdowns;
    use super::*;

    fn by_instances(slowdown: fn(&str, usize) -> Option<f64>) -> Findings {
        with_slowdowns(table_5, move |scenario, _| slowdown(scenario.programs[0], scenario.programs.len()))
    }

    fn of_rahman(program: &str, count: usize) -> Option<f64> {
        rahman::TABLE_5.into_iter().find(|(name, _)| *name == program)?.1[count - 1]
    }

    #[test]
    fn all_conclusions_hold_on_the_numbers_of_the_thesis() {
        let found = by_instances(of_rahman);
        assert_eq!(found.hold(), [true, true, true]);
        for (name, known) in rahman::TABLE_5 {
            let (_, cells) = found.tables[0].rows.iter().find(|(row, _)| row == name).unwrap();
            assert_eq!(cells.iter().map(|cell| cell.published).collect::<Vec<_>>(), known);
            let differs = |(ours, known): (&TableCell, Option<f64>)| match (ours.ours, known) {
                (Some(ours), Some(known)) => (ours - known).abs() > 1e-9,
                (ours, known) => ours != known,
            };
            assert!(!cells.iter().zip(known).any(differs), "{name}: {cells:?}");
        }
        assert_eq!(found.tables[0].columns[4], "5 instances");
    }

    #[test]
    fn a_program_that_speeds_up_or_has_memory_where_rahmans_has_none_contradicts_them() {
        let falls = |program: &str, count| Some(if program == "mcf" && count > 1 { 1.0 } else { 1.25 });
        let found = by_instances(falls);
        assert_eq!(found.hold(), [false, false, false]);
        let reasons: Vec<&str> = found.claims.iter().map(|claim| &*claim.because).collect();
        assert_eq!(reasons, ["for 4 of 5 programs", "1.250", "2 of 5 columns agree"]);
        assert_eq!(by_instances(|_, _| Some(1.0)).hold(), [true, true, false], "as slow with five as with one");
    }

    fn by_iterations(slowdown: fn(&str, u32) -> f64) -> Findings {
        with_slowdowns(figure_17, move |scenario, setup| {
            let iterations = setup.settings.limits.min_fidelity.backgrounds();
            Some(slowdown(scenario.programs[0], iterations))
        })
    }

    #[test]
    fn longer_tests_slow_the_programs_with_most_memory_most() {
        let found = by_iterations(|program, iterations| {
            let memory = if ["mcf", "zeusmp"].contains(&program) { 0.5 } else { 0.25 };
            1.0 + memory * f64::from(iterations)
        });
        let table = &found.tables[0];
        assert_eq!(
            (table.printed("1"), table.printed("4")),
            ("1.500 1.500 1.250 1.250".into(), "3.000 3.000 2.000 2.000".into())
        );
        let published = [("5", "mcf", 1.25), ("5", "zeusmp", 1.25), ("5", "gromacs", 1.10), ("5", "calculix", 1.10)];
        assert_eq!(table.published(), published);
        assert_eq!(found.hold(), [true, true]);
        assert_eq!(by_iterations(|_, _| 1.25).hold(), [true, false]);
        assert_eq!(by_iterations(|_, iterations| 1.0 / f64::from(iterations)).hold(), [false, false]);
    }
}
