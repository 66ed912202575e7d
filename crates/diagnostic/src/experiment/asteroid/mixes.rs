//! Tables 8 and 9 and figure 33: Adaptive beside sixteen fixed configurations, on L1 to H2.

use rampart_sim::workload::MIXES;

use super::super::outcome::{Cell, Claim, Drawn, Measure, Table};
use super::super::runs::Runner;
use super::super::scenario::{Scenario, Setup};
use super::super::{Findings, thesis};
use super::on_t620;

/// The columns of tables 8 and 9: Adaptive, then Fix with threads 4 to 1 for each number of patterns.
fn configurations() -> Vec<(String, Setup)> {
    let fixed = [8, 16, 24, 32]
        .into_iter()
        .flat_map(|count| [4, 3, 2, 1].map(|threads| (format!("Fix{threads}.{count}"), Setup::fix(threads, count))));
    std::iter::once(("Adapt".to_owned(), Setup::adaptive())).chain(fixed).collect()
}

/// What one workload gave with one configuration.
#[derive(Clone, Copy)]
struct Result {
    slowdown: f64,
    patterns: f64,
    threads: f64,
}

/// Every mix with every configuration, in the order of [`MIXES`] and of [`configurations`].
fn mixes(runner: &Runner<'_>) -> Vec<Vec<Result>> {
    let configurations = configurations();
    let scenarios: Vec<Scenario> = MIXES
        .into_iter()
        .flat_map(|mix| configurations.iter().map(move |(_, setup)| on_t620(mix.programs(), setup.clone())))
        .collect();
    let runs = runner.run_all(&scenarios);
    let results: Vec<Result> = scenarios
        .iter()
        .zip(&runs)
        .map(|(scenario, run)| Result {
            slowdown: runner.slowdown(scenario, run).unwrap_or(f64::NAN),
            patterns: run.patterns,
            threads: run.threads,
        })
        .collect();
    results.chunks(configurations.len()).map(<[_]>::to_vec).collect()
}

/// The configuration that the thesis shades: of those with the least slowdown, as it is printed, the one furthest to the
/// right and down (5.3.3).
fn best_fix(row: &[Result]) -> usize {
    let printed = |result: &Result| (100.0 * result.slowdown).round();
    let least = row[1..].iter().map(printed).fold(f64::INFINITY, f64::min);
    1 + row[1..].iter().rposition(|result| printed(result) <= least).expect("sixteen configurations")
}

/// The configuration with the least slowdown, to the last digit.
fn fastest_fix(row: &[Result]) -> usize {
    let least = (1..row.len()).min_by(|&a, &b| row[a].slowdown.total_cmp(&row[b].slowdown));
    least.expect("sixteen configurations")
}

fn never_much_worse(rows: &[Vec<Result>]) -> Claim {
    let worst =
        rows.iter().map(|row| row[0].slowdown - row[fastest_fix(row)].slowdown).fold(f64::NEG_INFINITY, f64::max);
    Claim {
        says: "Adaptive is never more than 0.01 slower than the best Fix (tables 8 and 9)",
        holds: worst <= 0.01,
        because: format!("at most {worst:.3}"),
    }
}

pub fn tables_8_and_9(runner: &Runner<'_>) -> Findings {
    let rows = mixes(runner);
    let names: Vec<String> = configurations().into_iter().map(|(name, _)| name).collect();
    let known = |mix: &str, at: usize| {
        let (_, adaptive, fixed) = thesis::TABLES_8_AND_9.into_iter().find(|(row, ..)| *row == mix)?;
        Some(if at == 0 { adaptive } else { fixed[(at - 1) / 4][(at - 1) % 4] })
    };
    let part = |title: &str, columns: [usize; 9]| Table {
        title: title.to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Bars,
        of: "workload",
        columns: columns.iter().map(|&at| names[at].clone()).collect(),
        rows: MIXES
            .iter()
            .zip(&rows)
            .map(|(mix, row)| {
                let cell = |&at: &usize| Cell { ours: Some(row[at].slowdown), thesis: known(mix.name, at) };
                (mix.name.to_owned(), columns.iter().map(cell).collect())
            })
            .collect(),
    };
    let tables = vec![
        part("Table 8: slowdown, 8 and 16 patterns", [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        part("Table 9: slowdown, 24 and 32 patterns", [0, 9, 10, 11, 12, 13, 14, 15, 16]),
    ];
    let slowest = rows.iter().filter(|row| row[16].slowdown >= row[1].slowdown).count();
    let by_demand = rows[7][16].slowdown > rows[0][16].slowdown;
    let claims = vec![
        never_much_worse(&rows),
        Claim {
            says: "the fastest configuration, Fix4.8, slows programs no more than the slowest, Fix1.32 (5.3.3)",
            holds: slowest == rows.len(),
            because: format!("for {slowest} of {} workloads", rows.len()),
        },
        Claim {
            says: "slowdown with Fix1.32 rises with demand, from L1 to H2 (5.3.3)",
            holds: by_demand,
            because: format!("{:.3} and {:.3}", rows[0][16].slowdown, rows[7][16].slowdown),
        },
    ];
    Findings { tables, claims, remarks: Vec::new() }
}

pub fn figure_33(runner: &Runner<'_>) -> Findings {
    let rows = mixes(runner);
    let table = |title: &str, measure, columns: &[&str], cells: &dyn Fn(usize, &[Result]) -> Vec<Cell>| Table {
        title: title.to_owned(),
        measure,
        drawn: Drawn::Bars,
        of: "workload",
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        rows: MIXES.iter().enumerate().map(|(at, mix)| (mix.name.to_owned(), cells(at, &rows[at]))).collect(),
    };
    let cell = |ours: f64, thesis| Cell { ours: Some(ours), thesis };
    let columns = ["Adapt", "fastest Fix", "best Fix"];
    let of_three = |row: &[Result]| [row[0], row[fastest_fix(row)], row[best_fix(row)]];
    let slowdown =
        table("Slowdown", Measure::Slowdown, &["Adapt", "fastest Fix", "best Fix", "worst Fix"], &|_, row| {
            let worst = row[1..].iter().map(|result| result.slowdown).fold(0.0, f64::max);
            of_three(row)
                .into_iter()
                .map(|result| result.slowdown)
                .chain([worst])
                .map(|ours| cell(ours, None))
                .collect()
        });
    let fidelity = table("Fidelity", Measure::Patterns, &columns, &|at, row| {
        let known = thesis::FIGURE_33_PATTERNS.into_iter().find(|(name, ..)| *name == MIXES[at].name);
        let known = [known.map(|known| known.1), None, known.map(|known| known.2)];
        of_three(row).into_iter().zip(known).map(|(result, thesis)| cell(result.patterns, thesis)).collect()
    });
    let threads = table("Threads", Measure::Threads, &columns, &|_, row| {
        of_three(row).into_iter().map(|result| cell(result.threads, None)).collect()
    });
    let claims = vec![
        never_much_worse(&rows),
        as_thorough(
            "on L and H workloads Adaptive's fidelity is as high as the fastest Fix's, or higher",
            &rows,
            fastest_fix,
        ),
        as_thorough(
            "and as the best Fix's, the most thorough of those that are as fast to two digits (5.3.4)",
            &rows,
            best_fix,
        ),
    ];
    Findings { tables: vec![slowdown, fidelity, threads], claims, remarks: Vec::new() }
}

/// On how many of the L and H workloads Adaptive applies as many patterns as the Fix that `which` picks.
fn as_thorough(says: &'static str, rows: &[Vec<Result>], which: fn(&[Result]) -> usize) -> Claim {
    let peaks_and_valleys = [0, 1, 2, 6, 7];
    let higher =
        peaks_and_valleys.into_iter().filter(|&at| rows[at][0].patterns >= rows[at][which(&rows[at])].patterns);
    let names: Vec<&str> = higher.map(|at| MIXES[at].name).collect();
    Claim {
        says,
        holds: names.len() == peaks_and_valleys.len(),
        because: format!("for {} of 5: {}", names.len(), names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::Effort;
    use super::super::slowdowns;
    use super::*;
    use crate::control::Limits;

    /// The shading of the thesis' own tables comes out of the rule that its text gives.
    #[test]
    fn the_best_fix_is_the_one_that_the_thesis_shades() {
        let best = |at: usize| {
            let (_, adaptive, fixed) = thesis::TABLES_8_AND_9[at];
            let all = std::iter::once(adaptive).chain(fixed.into_iter().flatten());
            let row: Vec<Result> = all.map(|slowdown| Result { slowdown, patterns: 0.0, threads: 0.0 }).collect();
            configurations()[best_fix(&row)].0.clone()
        };
        assert_eq!([best(0), best(4), best(7)], ["Fix4.24", "Fix3.16", "Fix3.8"]);
    }

    /// In short: the mix on which demand that was counted too high once made it slower than the best Fix.
    #[test]
    fn adaptive_is_never_much_slower_than_the_best_fix() {
        let effort = Effort { longest: Duration::from_secs(50), ..Effort::short() };
        let runner = Runner::new(effort, &|_, _| {});
        let setups = [Setup::adaptive(), Setup::fix(4, 8), Setup::fix(2, 16), Setup::fix(1, 32)];
        let slowdowns = slowdowns(&runner, &setups.map(|setup| on_t620(MIXES[1].programs(), setup)));
        let [adaptive, fixed @ ..] = &*slowdowns else { unreachable!("four setups") };
        let best = fixed.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        assert!(adaptive.is_some_and(|adaptive| adaptive <= best + 0.01), "{slowdowns:?}");
    }

    #[test]
    fn every_fixed_configuration_has_one_choice() {
        for (name, setup) in configurations().iter().skip(1) {
            let Limits { min_fidelity, max_fidelity, .. } = setup.settings.limits;
            assert_eq!(min_fidelity, max_fidelity, "{name}");
            assert!(setup.settings.checked().is_ok());
        }
    }
}
