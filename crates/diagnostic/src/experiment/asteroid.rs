//! Chapter 5: Asteroid, on a server with two nodes, 16 cores and 64 GB.

use rampart_memory::Fidelity;
use rampart_sim::workload::{MIXES, PAIRS};

use super::outcome::{Cell, Claim, Drawn, Measure, Table, mean};
use super::runs::Runner;
use super::scenario::{Scenario, Setup, TestedMachine};
use super::{Findings, thesis};
use crate::control::Settings;

fn on_t620(programs: Vec<&'static str>, setup: Setup) -> Scenario {
    Scenario { machine: TestedMachine::T620, programs, setup: Some(setup) }
}

fn slowdowns(runner: &Runner<'_>, scenarios: &[Scenario]) -> Vec<Option<f64>> {
    let runs = runner.run_all(scenarios);
    scenarios.iter().zip(&runs).map(|(scenario, run)| runner.slowdown(scenario, run)).collect()
}

fn ours(values: &[Option<f64>]) -> Vec<Cell> {
    values.iter().map(|&ours| Cell { ours, thesis: None }).collect()
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
                let fidelity = Fidelity::new(fidelity).expect("1 or 8");
                on_t620(vec![program; count], Setup::comet_on(TestedMachine::T620, fidelity))
            })
        })
        .collect();
    let values = slowdowns(runner, &scenarios);
    let known = |count, (program, fidelity)| {
        let point = thesis::FIGURE_24.into_iter().find(|&(p, f, c, _)| (p, f, c) == (program, fidelity, count));
        point.map(|(.., slowdown)| slowdown)
    };
    let rows = instances.into_iter().zip(values.chunks(columns.len())).map(|(count, row)| {
        let cells = row.iter().zip(&columns).map(|(&ours, &column)| Cell { ours, thesis: known(count, column) });
        (count.to_string(), cells.collect())
    });
    let table = Table {
        title: "Slowdown by COMeT".to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Lines,
        of: "instances",
        columns: columns.iter().map(|(program, fidelity)| format!("{program} f={fidelity}")).collect(),
        rows: rows.collect(),
    };
    let of = |count: &str, column: &str| table.ours(count, column).unwrap_or(f64::NAN);
    let rises = table.columns.iter().filter(|column| of("12", column) > of("1", column)).count();
    let earlier = programs.iter().filter(|p| of("8", &format!("{p} f=8")) >= of("8", &format!("{p} f=1"))).count();
    let claims = vec![
        Claim {
            says: "one tester without the optimizations cannot keep up with many instances (5.0)",
            holds: rises == columns.len(),
            because: format!("slower at 12 instances than at 1 for {rises} of {} curves", columns.len()),
        },
        Claim {
            says: "a higher fidelity is too slow for fewer instances (5.0)",
            holds: earlier == programs.len(),
            because: format!("for {earlier} of 3 programs at 8 instances"),
        },
    ];
    let remarks = vec![
        "a run of one minute holds a third of a lifetime: whether the pages of a program come to be renewed in it is chance, and \
         curves are less smooth than over the thesis' hours",
    ];
    Findings { tables: vec![table], claims, remarks }
}

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
    let values = slowdowns(runner, &scenarios);
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
    let steps: Vec<f64> = average.iter().flatten().copied().collect();
    let comet: Vec<f64> = table.column("COMeT").flatten().collect();
    let (least, most) = comet.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), &v| (l.min(v), m.max(v)));
    let (low, high) = thesis::FIGURE_31_COMET;
    let claims = vec![
        Claim {
            says: "each optimization helps, on average over the pairs (5.3.2)",
            holds: steps.windows(2).all(|pair| pair[1] <= pair[0]),
            because: steps.iter().map(|step| format!("{step:.3}")).collect::<Vec<_>>().join(", "),
        },
        Claim {
            says: "COMeT without them slows the pairs by 1.5 to 2.3 (5.3.2)",
            holds: least >= low - 0.2 && most <= high + 0.2,
            because: format!("{least:.2} to {most:.2}"),
        },
        Claim {
            says: "cache-indirect testing helps most (5.3.2)",
            holds: steps
                .windows(2)
                .map(|pair| pair[0] - pair[1])
                .enumerate()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .is_some_and(|(at, _)| at == 0),
            because: "of the three steps".to_owned(),
        },
    ];
    Findings {
        tables: vec![table],
        claims,
        remarks: vec![
            "the thesis does not name its eight pairs; ours span the same low to moderate demand",
            "recycling costs here: a page that is returned is expired, so the next user of a short-lived page needs a test that \
             reuse would have saved, on demand where one tester cannot follow; what it saves, migrations of pages handed out old, \
             comes after a lifetime",
            "skipping the middle ranks changes little here: a list that is short draws on larger blocks as allocation does",
        ],
    }
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

pub fn figure_34(runner: &Runner<'_>) -> Findings {
    let h2 = MIXES.last().expect("eight mixes");
    let scenario = on_t620(h2.programs(), Setup::adaptive());
    let run = runner.run(&scenario);
    let each = runner.slowdown_of_each(&scenario, &run);
    let instances = Table {
        title: "Slowdown of each program of H2".to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Bars,
        of: "program (core)",
        columns: vec!["Adapt".to_owned()],
        rows: h2
            .programs()
            .iter()
            .enumerate()
            .map(|(core, name)| (format!("{name} ({core})"), ours(&[each[core]])))
            .collect(),
    };
    // The thesis shows half a minute around a relaunch: here the half minute around the highest demand.
    let peak = run.timeline.iter().enumerate().max_by(|a, b| a.1.demand.total_cmp(&b.1.demand)).map_or(0, |(at, _)| at);
    let first = peak.saturating_sub(10);
    let rows = run.timeline.iter().enumerate().skip(first).take(30).map(|(second, seen)| {
        (second.to_string(), ours(&[Some(seen.demand), Some(seen.concurrent), Some(seen.concurrent + seen.on_demand)]))
    });
    let timeline = Table {
        title: "Demand and testing".to_owned(),
        measure: Measure::FramesPerSecond,
        drawn: Drawn::Lines,
        of: "seconds",
        columns: ["demand", "concurrent", "concurrent+on demand"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let behind = run.timeline.get(peak).is_some_and(|seen| seen.concurrent < seen.demand);
    let claims = vec![Claim {
        says: "a burst is more than the testers can follow; it empties the pool (5.3.5)",
        holds: behind,
        because: run.timeline.get(peak).map_or_else(String::new, |seen| {
            format!("at {peak} s {:.0} frames/s asked for, {:.0} tested ahead", seen.demand, seen.concurrent)
        }),
    }];
    Findings { tables: vec![instances, timeline], claims, remarks: Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Effort;
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

    /// In short: where more was owed to the lists of the first node than one tester can test, the second got nothing.
    #[test]
    fn one_tester_serves_both_nodes() {
        let effort = Effort { longest: Duration::from_secs(50), ..Effort::short() };
        let runner = Runner::new(effort, &|_, _| {});
        let [.., (_, recycling), _] = one_more_each();
        let run = runner.run(&on_t620([vec!["gromacs"; 5], vec!["sjeng"; 5]].concat(), recycling));
        assert!(run.machine.on_demand * 20 < run.machine.allocated, "{:?}", run.machine);
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
