//! [Rahman16, tab. 8 and 9] and [Rahman16, fig. 33]: Adaptive beside sixteen fixed configurations, on L1 to H2.
//!
//! Claims compare Adaptive with two choices of Fix. *Fastest* is the Fix with the least mean slowdown over the seeds,
//! to the last digit. *Best* is the one that Rahman shades [Rahman16, 5.3.3]: among the least slowdowns, rounded to two
//! digits, the most thorough, then the one with the fewest threads. If Adaptive falls behind, the claim reports how
//! much faster or slower the Fix is and, with more than one seed, the standard error of that difference.

use rampart_sim::workload::{MIXES, Mix};

use super::super::outcome::{Measure, StudyClaim, Table, TableCell, mean, range};
use super::super::runs::Runner;
use super::super::scenario::{Scenario, Setup};
use super::super::{Findings, rahman};
use super::on_t620;

/// The results of one workload with one configuration.
#[derive(Clone)]
struct Point {
    name: String,
    /// The slowdown for each seed.
    slowdowns: Vec<f64>,
    patterns: f64,
    threads: f64,
}

impl Point {
    fn slowdown(&self) -> f64 {
        mean(self.slowdowns.iter().copied()).unwrap_or(f64::NAN)
    }

    /// Returns the slowdown as Rahman prints it, in hundredths.
    fn printed(&self) -> f64 {
        (100.0 * self.slowdown()).round()
    }

    /// Describes how much faster or slower this is than another, with the same seeds.
    fn beside(&self, other: &Self) -> String {
        let differences: Vec<f64> =
            self.slowdowns.iter().zip(&other.slowdowns).map(|(mine, others)| others - mine).collect();
        let difference = mean(differences.iter().copied()).unwrap_or(f64::NAN);
        let (which, by) = (if difference < 0.0 { "slower" } else { "faster" }, difference.abs());
        match standard_error(&differences) {
            Some(error) => format!("{which} by {by:.4} ± {error:.4}"),
            None => format!("{which} by {by:.4}"),
        }
    }
}

/// Returns the standard error of a mean; `None` for a single value.
#[expect(clippy::cast_precision_loss, reason = "a handful of seeds")]
fn standard_error(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = mean(values.iter().copied())?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
}

/// A workload with Adaptive, and with Fix with threads 4 to 1 for each number of patterns, as in [Rahman16, tab. 8 and
/// 9].
struct Row {
    mix: Mix,
    adaptive: Point,
    fixed: Vec<Point>,
}

impl Row {
    /// Returns the Fix with the least slowdown, to the last digit.
    fn fastest(&self) -> &Point {
        self.fixed.iter().min_by(|a, b| a.slowdown().total_cmp(&b.slowdown())).expect("sixteen configurations")
    }

    /// Returns the Fix that Rahman shades: among the least slowdowns as printed, the one furthest to the right and down
    /// [Rahman16, 5.3.3].
    fn best(&self) -> &Point {
        let (least, _) = range(self.fixed.iter().map(Point::printed));
        self.fixed.iter().rfind(|point| point.printed() <= least).expect("sixteen configurations")
    }
}

/// What both experiments have among their results and no evidence is.
const CALIBRATED: &str = "the short-lived pages of programs are calibrated on Fix1.32 for L1, M1 and H2: these three are \
                          no evidence, nor is the worst Fix of these workloads in figure 33";

/// Returns the columns of [Rahman16, tab. 8 and 9] except Adaptive.
fn configurations() -> Vec<(String, Setup)> {
    let fixed = |count| [4, 3, 2, 1].map(|threads| (format!("Fix{threads}.{count}"), Setup::fix(threads, count)));
    [8, 16, 24, 32].into_iter().flat_map(fixed).collect()
}

/// Runs every mix with every configuration.
fn rows(runner: &Runner<'_>) -> Vec<Row> {
    let adaptive = ("Adapt".to_owned(), Setup::adaptive());
    let setups: Vec<(String, Setup)> = std::iter::once(adaptive).chain(configurations()).collect();
    let scenarios: Vec<Scenario> = MIXES
        .into_iter()
        .flat_map(|mix| setups.iter().map(move |(_, setup)| on_t620(mix.programs(), setup.clone())))
        .collect();
    let runs = runner.run_all(&scenarios);
    let names = setups.iter().map(|(name, _)| name).cycle();
    let points: Vec<Point> = scenarios
        .iter()
        .zip(&runs)
        .zip(names)
        .map(|((scenario, runs), name)| Point {
            name: name.clone(),
            slowdowns: runner.slowdown_by_seed(scenario, runs).unwrap_or_default(),
            patterns: runs.mean(|run| run.patterns),
            threads: runs.mean(|run| run.threads),
        })
        .collect();
    let rows = MIXES.into_iter().zip(points.chunks(setups.len()));
    rows.map(|(mix, points)| Row { mix, adaptive: points[0].clone(), fixed: points[1..].to_vec() }).collect()
}

pub fn tables_8_and_9(runner: &Runner<'_>) -> Findings {
    let rows = rows(runner);
    let tables = vec![
        part("Table 8: slowdown, 8 and 16 patterns", &rows, 0),
        part("Table 9: slowdown, 24 and 32 patterns", &rows, 8),
    ];
    let (least, most) = (&rows[0], &rows[rows.len() - 1]);
    let [fastest, slowest] = [|row: &Row| row.fixed[0].slowdown(), |row: &Row| row.fixed[15].slowdown()];
    let ordered = rows.iter().filter(|row| slowest(row) >= fastest(row)).count();
    let claims = vec![
        never_much_worse(&rows),
        StudyClaim::new(
            "the fastest configuration, Fix4.8, slows programs no more than the slowest, Fix1.32 (5.3.3)",
            ordered == rows.len(),
            format!("for {ordered} of {} workloads", rows.len()),
        ),
        StudyClaim::new(
            "slowdown with Fix1.32 rises with demand, from L1 to H2 (5.3.3)",
            slowest(most) > slowest(least),
            format!("{:.3} and {:.3}", slowest(least), slowest(most)),
        ),
    ];
    Findings { tables, claims, remarks: vec![CALIBRATED] }
}

/// Returns a table of Adaptive and eight of the sixteen configurations, from `first` on.
fn part(title: &str, rows: &[Row], first: usize) -> Table {
    let names = configurations().into_iter().skip(first).take(8).map(|(name, _)| name);
    let columns = std::iter::once("Adapt".to_owned()).chain(names);
    let rows = rows.iter().zip(rahman::TABLES_8_AND_9).map(|(row, (name, adaptive, fixed))| {
        assert_eq!(row.mix.name, name, "both in the order of table 7");
        let known = fixed.into_iter().flatten().skip(first);
        let ours = row.fixed[first..first + 8].iter().zip(known);
        let cells = std::iter::once((&row.adaptive, adaptive)).chain(ours);
        (name.to_owned(), cells.map(|(point, known)| cell(point.slowdown(), Some(known))).collect())
    });
    Table::bars(title, Measure::Slowdown, "workload", columns, rows)
}

pub fn figure_33(runner: &Runner<'_>) -> Findings {
    let rows = rows(runner);
    let columns = ["Adapt", "fastest Fix", "best Fix"];
    let of_three = |row: &Row, of: fn(&Point) -> f64| [&row.adaptive, row.fastest(), row.best()].map(of);
    let slowdown = rows.iter().map(|row| {
        let (_, worst) = range(row.fixed.iter().map(Point::slowdown));
        let values = of_three(row, Point::slowdown).into_iter().chain([worst]);
        (row.mix.name.to_owned(), values.map(|ours| cell(ours, None)).collect())
    });
    let fidelity = rows.iter().map(|row| {
        let known = rahman::FIGURE_33_PATTERNS.into_iter().find(|(name, ..)| *name == row.mix.name);
        let known = [known.map(|known| known.1), None, known.map(|known| known.2)];
        let values = of_three(row, |point| point.patterns).into_iter().zip(known);
        (row.mix.name.to_owned(), values.map(|(ours, known)| cell(ours, known)).collect())
    });
    let threads = rows.iter().map(|row| {
        (row.mix.name.to_owned(), of_three(row, |point| point.threads).map(|ours| cell(ours, None)).to_vec())
    });
    let of = "workload";
    let tables = vec![
        Table::bars("Slowdown", Measure::Slowdown, of, columns.into_iter().chain(["worst Fix"]), slowdown),
        Table::bars("Fidelity", Measure::Patterns, of, columns, fidelity),
        Table::bars("Threads", Measure::Threads, of, columns, threads),
    ];
    let claims = vec![
        never_much_worse(&rows),
        as_thorough(
            "on L and H workloads Adaptive's fidelity is as high as the fastest Fix's, or higher",
            &rows,
            Row::fastest,
        ),
        as_thorough(
            "and as the best Fix's, the most thorough of those that are as fast to two digits (5.3.4)",
            &rows,
            Row::best,
        ),
    ];
    Findings { tables, claims, remarks: vec![CALIBRATED] }
}

const fn cell(ours: f64, published: Option<f64>) -> TableCell {
    TableCell { ours: Some(ours), published }
}

fn never_much_worse(rows: &[Row]) -> StudyClaim {
    let (_, worst) = range(rows.iter().map(|row| row.adaptive.slowdown() - row.fastest().slowdown()));
    StudyClaim::new(
        "Adaptive is never more than 0.01 slower than the best Fix (tables 8 and 9)",
        worst <= 0.01,
        format!("at most {worst:.3}"),
    )
}

/// Claims that Adaptive applies at least as many patterns as the Fix that `which` picks, on the L and H workloads,
/// whose demand has peaks and valleys [Rahman16, 5.3.4]. For each exception, the reason has that Fix and how much
/// faster it is.
fn as_thorough(says: &'static str, rows: &[Row], which: fn(&Row) -> &Point) -> StudyClaim {
    let candidates: Vec<&Row> = rows.iter().filter(|row| row.mix.name.starts_with(['L', 'H'])).collect();
    let (higher, lower): (Vec<&Row>, Vec<&Row>) =
        candidates.iter().copied().partition(|row| row.adaptive.patterns >= which(row).patterns);
    let names: Vec<&str> = higher.iter().map(|row| row.mix.name).collect();
    let others = lower.iter().map(|row| {
        let fix = which(row);
        format!("; on {} {} is {}", row.mix.name, fix.name, fix.beside(&row.adaptive))
    });
    StudyClaim::new(
        says,
        lower.is_empty(),
        format!("for {} of {}: {}{}", names.len(), candidates.len(), names.join(", "), others.collect::<String>()),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::Effort;
    use super::super::super::fake::{findings, slowed};
    use super::super::super::simulate::Run;
    use super::super::slowdowns;
    use super::*;
    use rampart_diagnostic::control::PolicyLimits;

    fn point(name: &str, slowdowns: &[f64]) -> Point {
        Point { name: name.to_owned(), slowdowns: slowdowns.to_vec(), patterns: 8.0, threads: 1.0 }
    }

    /// The rule of the text reproduces the shading of Rahman's own tables.
    #[test]
    fn the_best_fix_is_the_one_that_the_thesis_shades() {
        let best = |at: usize| {
            let (_, adaptive, fixed) = rahman::TABLES_8_AND_9[at];
            let names = configurations().into_iter().map(|(name, _)| name);
            let fixed = names.zip(fixed.into_iter().flatten()).map(|(name, slowdown)| point(&name, &[slowdown]));
            let row = Row { mix: MIXES[at], adaptive: point("Adapt", &[adaptive]), fixed: fixed.collect() };
            row.best().name.clone()
        };
        assert_eq!([best(0), best(4), best(7)], ["Fix4.24", "Fix3.16", "Fix3.8"]);
    }

    #[test]
    fn a_difference_is_told_with_its_standard_error_by_the_same_seeds() {
        let (one, other) = (point("one", &[1.25, 1.5, 1.75]), point("other", &[1.0, 1.5, 1.5]));
        assert_eq!(one.beside(&other), "slower by 0.1667 ± 0.0833");
        assert_eq!(point("other", &[1.0]).beside(&point("one", &[1.25])), "faster by 0.2500");
        assert_eq!(one.beside(&one), "faster by 0.0000 ± 0.0000", "one that is as fast is not slower");
    }

    /// A short run of the mix on which Adaptive was once slower than the best Fix, because demand was counted too high.
    #[test]
    fn adaptive_is_never_much_slower_than_the_best_fix() {
        let effort = Effort { longest: Duration::from_secs(50), ..Effort::short() };
        let runner = Runner::new(effort, rampart_sim::MachineAllocator::Buddy, &|_, _| {});
        let setups = [Setup::adaptive(), Setup::fix(4, 8), Setup::fix(2, 16), Setup::fix(1, 32)];
        let slowdowns = slowdowns(&runner, &setups.map(|setup| on_t620(MIXES[1].programs(), setup)));
        let [adaptive, fixed @ ..] = &*slowdowns else { unreachable!("four setups") };
        let (best, _) = range(fixed.iter().flatten().copied());
        assert!(adaptive.is_some_and(|adaptive| adaptive <= best + 0.01), "{slowdowns:?}");
    }

    /// Each class of programs has a mix that its demand is calibrated on (docs/experiments.md).
    #[test]
    fn each_class_demands_as_much_as_slows_its_mix_by_rahmans_number_with_the_weakest_fix() {
        let effort = Effort { longest: Duration::from_secs(180), ..Effort::short() };
        let runner = Runner::new(effort, rampart_sim::MachineAllocator::Buddy, &|_, _| {});
        let calibrated = ["L1", "M1", "H2"].map(|name| MIXES.iter().find(|mix| mix.name == name).unwrap());
        let scenarios = calibrated.map(|mix| on_t620(mix.programs(), Setup::fix(1, 32)));
        for (mix, ours) in calibrated.iter().zip(slowdowns(&runner, &scenarios)) {
            let (.., fixed) = rahman::TABLES_8_AND_9.into_iter().find(|(name, ..)| *name == mix.name).unwrap();
            let (ours, lost) = (ours.unwrap(), fixed[3][3] - 1.0);
            assert!((ours - 1.0 - lost).abs() < 0.3 * lost, "{}: {ours} instead of {}", mix.name, fixed[3][3]);
        }
    }

    /// Runs with these slowdowns by mix and configuration; the number of patterns is that of the configuration, with
    /// Adaptive 24 on L and M, and 8 on H.
    fn by(make: fn(&Runner<'_>) -> Findings, slowdown: fn(&str, &str) -> f64) -> Findings {
        let configurations = configurations();
        findings(make, move |scenario| {
            let mix = MIXES.iter().find(|mix| mix.programs() == scenario.programs).unwrap().name;
            let of = |setup: &Setup| {
                configurations.iter().find(|(_, one)| one == setup).map_or("Adapt", |(name, _)| name.as_str())
            };
            let name = scenario.setup.as_ref().map_or("none", of);
            let patterns = match name.split_once('.') {
                Some((_, patterns)) => patterns.parse().unwrap(),
                None if mix.starts_with('H') => 8.0,
                None => 24.0,
            };
            Run { patterns, threads: 1.5, ..slowed(scenario, |_| Some(slowdown(mix, name))) }
        })
    }

    /// The numbers of tables 8 and 9.
    fn of_rahman(mix: &str, configuration: &str) -> f64 {
        let (_, adaptive, fixed) = rahman::TABLES_8_AND_9.into_iter().find(|(name, ..)| *name == mix).unwrap();
        let names = configurations().into_iter().map(|(name, _)| name);
        let mut all = names.zip(fixed.into_iter().flatten());
        all.find(|(name, _)| name == configuration).map_or(adaptive, |(_, slowdown)| slowdown)
    }

    #[test]
    fn the_numbers_of_the_thesis_stand_beside_themselves() {
        let found = by(tables_8_and_9, of_rahman);
        for table in &found.tables {
            assert_eq!((table.rows.len(), table.columns.len(), &*table.columns[0]), (8, 9, "Adapt"));
            for (row, column, known) in table.published() {
                assert!((table.number(row, column) - known).abs() < 1e-9, "{row} {column}");
            }
            assert_eq!(table.published().len(), 8 * 9);
        }
        let firsts = [&found.tables[0].columns[1], &found.tables[1].columns[1], &found.tables[1].columns[8]];
        assert_eq!(firsts, ["Fix4.8", "Fix4.24", "Fix1.32"]);
        // On M1; a rounding error decides whether this is more than 0.01.
        assert_eq!(found.claims[0].because, "at most 0.010");
        assert_eq!(found.hold()[1..], [true, true]);
    }

    #[test]
    fn a_slower_adaptive_a_faster_fix_and_no_rise_contradict_them() {
        let close = by(tables_8_and_9, |_, name| if name == "Adapt" { 1.255 } else { 1.25 });
        assert_eq!(close.hold(), [true, true, false], "0.005 is close");
        let even = by(tables_8_and_9, |_, _| 1.25);
        assert_eq!(even.hold(), [true, true, false]);
        let reversed = by(tables_8_and_9, |mix, name| match (mix, name) {
            ("L3", "Fix1.32") => 1.0,
            ("L3", "Adapt") => 1.25,
            _ => 1.125,
        });
        assert_eq!(reversed.hold(), [false, false, false]);
        assert_eq!(
            (&*reversed.claims[0].because, &*reversed.claims[1].because),
            ("at most 0.250", "for 7 of 8 workloads")
        );
    }

    #[test]
    fn figure_33_has_adaptive_the_fastest_the_best_and_the_worst_fix() {
        let found = by(figure_33, |_, name| match name {
            "Fix2.16" => 1.001,
            "Fix3.24" => 1.003,
            "Fix1.32" => 1.5,
            _ => 1.25,
        });
        let [slowdown, fidelity, threads] = &found.tables[..] else { panic!("three tables") };
        assert_eq!(slowdown.printed("M1"), "1.250 1.001 1.003 1.500");
        assert_eq!(
            (fidelity.printed("L1"), fidelity.printed("H2")),
            ("24.000 16.000 24.000".into(), "8.000 16.000 24.000".into())
        );
        let known = [("L1", "Adapt", 30.3), ("L1", "best Fix", 24.0), ("H2", "Adapt", 11.6), ("H2", "best Fix", 8.0)];
        assert_eq!((fidelity.published(), slowdown.published().len()), (known.to_vec(), 0));
        assert_eq!(threads.printed("L1"), "1.500 1.500 1.500");
        assert_eq!(found.hold(), [false, false, false]);
        let exceptions = "for 3 of 5: L1, L2, L3; on H1 Fix2.16 is faster by 0.2490; on H2 Fix2.16 is faster by 0.2490";
        assert_eq!(found.claims[1].because, exceptions);
    }

    #[test]
    fn adaptive_is_as_thorough_where_no_faster_fix_has_more_patterns() {
        let found = by(figure_33, |_, name| if name == "Adapt" || name == "Fix4.8" { 1.0 } else { 1.5 });
        assert_eq!(found.hold(), [true, true, true]);
    }

    #[test]
    fn every_fixed_configuration_has_one_choice() {
        for (name, setup) in configurations() {
            let PolicyLimits { min_fidelity, max_fidelity, .. } = setup.settings.limits;
            assert_eq!(min_fidelity, max_fidelity, "{name}");
            assert!(setup.settings.checked().is_ok());
        }
    }
}
