//! Figures 31 and 32: what the testers' optimizations are worth, one after the other.

use rampart_sim::workload::{MIXES, PAIRS};

use super::super::outcome::{Claim, Drawn, Measure, Table, mean};
use super::super::runs::{Run, Runner};
use super::super::scenario::{Scenario, Setup};
use super::super::{Findings, thesis};
use super::{on_t620, ours, slowdowns};
use crate::control::Settings;

/// COMeT on the server, which is Fix1.8 without the optimizations, and then one of them more each time (5.3.2).
fn one_more_each() -> [(&'static str, Setup); 4] {
    let fix = Setup::fix(1, 8);
    let settings = Settings { skip_middle: false, ..fix.settings };
    let comet = Setup { settings, cache_indirect: false, recycling: false, ..fix };
    let cache_indirect = Setup { cache_indirect: true, ..comet.clone() };
    let recycling = Setup { recycling: true, ..cache_indirect.clone() };
    let skip_middle = Setup { settings: Settings { skip_middle: true, ..recycling.settings }, ..recycling.clone() };
    [("COMeT", comet), ("+ cache indirect", cache_indirect), ("+ recycling", recycling), ("+ skip middle", skip_middle)]
}

pub fn figure_31(runner: &Runner<'_>) -> Findings {
    let setups = one_more_each();
    let five_each = |pair: [&'static str; 2]| [vec![pair[0]; 5], vec![pair[1]; 5]].concat();
    let scenarios: Vec<Scenario> = PAIRS
        .into_iter()
        .flat_map(|pair| setups.iter().map(move |(_, setup)| on_t620(five_each(pair), setup.clone())))
        .collect();
    let runs = runner.run_all(&scenarios);
    let values: Vec<_> = scenarios.iter().zip(&runs).map(|(scenario, run)| runner.slowdown(scenario, run)).collect();
    let rows = PAIRS.into_iter().zip(values.chunks(setups.len()));
    let rows: Vec<_> = rows.map(|(pair, row)| (pair.join("+"), ours(row))).collect();
    let average: Vec<_> = (0..setups.len()).map(|at| mean(values.chunks(4).filter_map(|row| row[at]))).collect();
    let table = Table {
        title: "Slowdown, one optimization more each time".to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Bars,
        of: "pair, 5 instances each",
        columns: setups.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: rows.into_iter().chain([("average".to_owned(), ours(&average))]).collect(),
    };
    let comet: Vec<f64> = table.column("COMeT").flatten().collect();
    let mut claims = claims_of_the_thesis(&average, &comet);
    let kept_up: Vec<usize> = (0..PAIRS.len()).filter(|&pair| keeps_up(&runs[4 * pair + 2])).collect();
    claims.push(helps_where_one_tester_keeps_up(&kept_up, &values, &runs));
    Findings {
        tables: vec![table],
        claims,
        remarks: vec![
            "the thesis does not name its eight pairs; ours span the same low to moderate demand",
            "with recycling a page that is returned is expired: fewer pages are renewed, since programs get them freshly tested, \
             and each allocation takes a test of its own, on demand where one tester cannot follow",
            "skipping the middle ranks saves little: programs ask for single pages here, and what comes of orders 3 to 8 is what \
             is left of larger blocks",
        ],
    }
}

/// Whether few pages, one in twenty, were tested while a program waited for them.
const fn keeps_up(run: &Run) -> bool {
    run.machine.on_demand * 20 < run.machine.allocated
}

/// From cache-indirect tests on, the slowdown falls with each optimization, for each of these pairs.
fn helps_where_one_tester_keeps_up(pairs: &[usize], values: &[Option<f64>], runs: &[Run]) -> Claim {
    let falls = |pair: &&usize| values[4 * *pair..][..4].windows(2).all(|step| step[1] <= step[0]);
    let migrated = |column: usize| pairs.iter().map(|pair| runs[4 * pair + column].machine.migrated).sum::<u64>();
    Claim {
        says: "each optimization helps each pair that one tester keeps up with",
        holds: !pairs.is_empty() && pairs.iter().filter(falls).count() == pairs.len(),
        because: format!(
            "{} of {} pairs; {} of their pages renewed without recycling, {} with it",
            pairs.iter().filter(falls).count(),
            pairs.len(),
            migrated(1),
            migrated(2)
        ),
    }
}

/// What 5.3.2 says of figure 31, from the averages over the pairs and COMeT's slowdown of each.
fn claims_of_the_thesis(average: &[Option<f64>], comet: &[f64]) -> Vec<Claim> {
    let steps: Vec<f64> = average.iter().flatten().copied().collect();
    let (least, most) = comet.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), &v| (l.min(v), m.max(v)));
    let (low, high) = thesis::FIGURE_31_COMET;
    let gains = || steps.windows(2).map(|pair| pair[0] - pair[1]).enumerate();
    vec![
        Claim {
            says: "each optimization helps, on average over the pairs (5.3.2)",
            holds: steps.windows(2).all(|pair| pair[1] <= pair[0]),
            because: steps.iter().map(|step| format!("{step:.4}")).collect::<Vec<_>>().join(", "),
        },
        Claim {
            says: "COMeT without them slows the pairs by 1.5 to 2.3 (5.3.2)",
            holds: least >= low - 0.2 && most <= high + 0.2,
            because: format!("{least:.2} to {most:.2}"),
        },
        Claim {
            says: "cache-indirect testing helps most (5.3.2)",
            holds: gains().max_by(|a, b| a.1.total_cmp(&b.1)).is_some_and(|(at, _)| at == 0),
            because: "of the three steps".to_owned(),
        },
    ]
}

pub fn figure_32(runner: &Runner<'_>) -> Findings {
    let local = Setup { core_local: true, ..Setup::fix(2, 8) };
    let any = Setup { settings: Settings { node_local: false, ..local.settings }, ..local.clone() };
    let scenarios: Vec<Scenario> =
        MIXES.into_iter().flat_map(|mix| [&any, &local].map(|setup| on_t620(mix.programs(), setup.clone()))).collect();
    let values = slowdowns(runner, &scenarios);
    let rows = MIXES.into_iter().zip(values.chunks(2)).map(|(mix, row)| (mix.name.to_owned(), ours(row)));
    let table = Table {
        title: "Slowdown with two testers".to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Bars,
        of: "workload",
        columns: vec!["any node".to_owned(), "own node".to_owned()],
        rows: rows.collect(),
    };
    let both: Vec<(f64, f64)> = values.chunks(2).filter_map(|row| row[0].zip(row[1])).collect();
    let (any, own) = (mean(both.iter().map(|b| b.0)), mean(both.iter().map(|b| b.1)));
    let claims = vec![Claim {
        says: "dispatch without regard to the node costs more (5.3.2)",
        holds: any > own,
        because: format!("{:.4} and {:.4} on average", any.unwrap_or(f64::NAN), own.unwrap_or(f64::NAN)),
    }];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::Effort;
    use super::*;

    /// In short: where more was owed to the lists of the first node than one tester can test, the second got nothing.
    #[test]
    fn one_tester_serves_both_nodes() {
        let effort = Effort { longest: Duration::from_secs(50), ..Effort::short() };
        let runner = Runner::new(effort, &|_, _| {});
        let [.., (_, recycling), _] = one_more_each();
        let run = runner.run(&on_t620([vec!["gromacs"; 5], vec!["sjeng"; 5]].concat(), recycling));
        assert!(run.machine.on_demand * 20 < run.machine.allocated, "{:?}", run.machine);
    }
}
