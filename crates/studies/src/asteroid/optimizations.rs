//! [Rahman16, fig. 31]: the gain of each optimization of the testers, one after the other.

use rampart_sim::workload::PAIRS;

use super::super::outcome::{Measure, StudyClaim, Table, mean, range};
use super::super::runs::{Runner, Runs};
use super::super::scenario::{Scenario, Setup};
use super::super::{Findings, rahman};
use super::{on_t620, ours};
use rampart_diagnostic::control::ControlSettings;

/// Returns COMeT on the server, which is Fix1.8 without the optimizations, and then with one more of them each time
/// [Rahman16, 5.3.2].
fn one_more_each() -> [(&'static str, Setup); 4] {
    let fix = Setup::fix(1, 8);
    let settings = ControlSettings { skip_middle: false, ..fix.settings };
    let comet = Setup { settings, cache_indirect: false, recycling: false, ..fix };
    let cache_indirect = Setup { cache_indirect: true, ..comet.clone() };
    let recycling = Setup { recycling: true, ..cache_indirect.clone() };
    let skip_middle =
        Setup { settings: ControlSettings { skip_middle: true, ..recycling.settings }, ..recycling.clone() };
    [("COMeT", comet), ("+ cache indirect", cache_indirect), ("+ recycling", recycling), ("+ skip middle", skip_middle)]
}

/// The results of a pair: a slowdown for each step, `None` if a program made no progress.
struct Pair {
    name: String,
    slowdowns: Vec<Option<f64>>,
    runs: Vec<Runs>,
}

impl Pair {
    /// Whether one tester keeps up with the pair with recycling: fewer than one page in twenty was tested while a
    /// program waited.
    fn is_followed(&self) -> bool {
        let with_recycling = &self.runs[2];
        with_recycling.count(|seen| seen.on_demand) * 20 < with_recycling.count(|seen| seen.allocated)
    }

    /// Whether no optimization makes the pair slower.
    fn gains(&self) -> bool {
        self.slowdowns.windows(2).all(|step| step[1] <= step[0])
    }
}

pub fn figure_31(runner: &Runner<'_>) -> Findings {
    let setups = one_more_each();
    let pairs = pairs(runner, &setups);
    let average: Vec<Option<f64>> =
        (0..setups.len()).map(|at| mean(pairs.iter().filter_map(|pair| pair.slowdowns[at]))).collect();
    let rows = pairs.iter().map(|pair| (pair.name.clone(), ours(&pair.slowdowns)));
    let rows = rows.chain([("average".to_owned(), ours(&average))]);
    let columns = setups.iter().map(|&(name, _)| name);
    let title = "Slowdown, one optimization more each time";
    let table = Table::bars(title, Measure::Slowdown, "pair, 5 instances each", columns, rows);
    let mut claims = claims_of_rahman(&average, &pairs);
    claims.push(helps_where_one_tester_follows(&pairs));
    let remarks = vec![
        "Rahman does not name the eight pairs; ours span the same low to moderate demand",
        "with recycling a freed page is marked expired: fewer pages are re-placed, since programs get them freshly tested, \
         and each allocation takes a test of its own, on demand where one tester cannot follow",
        "skipping the middle ranks saves little: programs ask for single pages here, and blocks of orders 3 to 8 are only \
         rests of larger blocks",
    ];
    Findings { tables: vec![table], claims, remarks }
}

fn pairs(runner: &Runner<'_>, setups: &[(&str, Setup)]) -> Vec<Pair> {
    let five_each = |pair: [&'static str; 2]| [vec![pair[0]; 5], vec![pair[1]; 5]].concat();
    let scenarios: Vec<Scenario> = PAIRS
        .into_iter()
        .flat_map(|pair| setups.iter().map(move |(_, setup)| on_t620(five_each(pair), setup.clone())))
        .collect();
    let runs = runner.run_all(&scenarios);
    let of_pairs = scenarios.chunks(setups.len()).zip(runs.chunks(setups.len()));
    PAIRS
        .into_iter()
        .zip(of_pairs)
        .map(|(pair, (scenarios, runs))| Pair {
            name: pair.join("+"),
            slowdowns: scenarios.iter().zip(runs).map(|(scenario, runs)| runner.slowdown(scenario, runs)).collect(),
            runs: runs.to_vec(),
        })
        .collect()
}

/// Returns the claims of [Rahman16, 5.3.2, fig. 31].
fn claims_of_rahman(average: &[Option<f64>], pairs: &[Pair]) -> Vec<StudyClaim> {
    let steps: Vec<f64> = average.iter().flatten().copied().collect();
    let (least, most) = range(pairs.iter().filter_map(|pair| pair.slowdowns[0]));
    let (low, high) = rahman::FIGURE_31_COMET;
    let gains = steps.windows(2).map(|step| step[0] - step[1]).enumerate();
    vec![
        StudyClaim::new(
            "each optimization helps, on average over the pairs (5.3.2)",
            steps.windows(2).all(|step| step[1] <= step[0]),
            steps.iter().map(|step| format!("{step:.4}")).collect::<Vec<_>>().join(", "),
        ),
        StudyClaim::new(
            "COMeT without them slows the pairs by 1.5 to 2.3 (5.3.2)",
            least >= low - 0.2 && most <= high + 0.2,
            format!("{least:.2} to {most:.2}"),
        ),
        StudyClaim::new(
            "cache-indirect testing helps most (5.3.2)",
            gains.max_by(|a, b| a.1.total_cmp(&b.1)).is_some_and(|(at, _)| at == 0),
            "of the three steps".to_owned(),
        ),
    ]
}

fn helps_where_one_tester_follows(pairs: &[Pair]) -> StudyClaim {
    let followed: Vec<&Pair> = pairs.iter().filter(|pair| pair.is_followed()).collect();
    let gaining = followed.iter().filter(|pair| pair.gains()).count();
    let re_placed = |step: usize| followed.iter().map(|pair| pair.runs[step].count(|seen| seen.migrated)).sum::<u64>();
    StudyClaim::new(
        "each optimization helps each pair that one tester keeps up with",
        !followed.is_empty() && gaining == followed.len(),
        format!(
            "{gaining} of {} pairs; {} of their pages re-placed without recycling, {} with it",
            followed.len(),
            re_placed(1),
            re_placed(2)
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::Effort;
    use super::super::super::fake::{findings, slowed};
    use super::super::super::simulate::Run;
    use super::*;
    use rampart_sim::MachineStatistics;

    /// The number of optimizations of a setup.
    fn step(setup: &Setup) -> usize {
        assert_eq!((setup.settings.limits.max_cores, setup.settings.limits.min_fidelity.patterns()), (1, 8), "Fix1.8");
        let each = [setup.cache_indirect, setup.recycling, setup.settings.skip_middle];
        assert!(each.is_sorted_by(|earlier, later| earlier >= later), "in the order of the thesis");
        each.into_iter().filter(|&is_on| is_on).count()
    }

    /// The slowdown by the first program of the pair and the number of optimizations; and the frames tested on demand,
    /// of 200.
    fn by(slowdown: fn(&str, usize) -> Option<f64>, on_demand: fn(&str) -> u64) -> Findings {
        findings(figure_31, move |scenario| {
            assert_eq!((scenario.programs.len(), scenario.programs[4] == scenario.programs[5]), (10, false), "5 each");
            let program = scenario.programs[0];
            let steps = scenario.setup.as_ref().map_or(0, step);
            let migrated = if steps == 1 { 5 } else { 3 };
            let on_demand = on_demand(program);
            let machine = MachineStatistics { allocated: 200, on_demand, migrated, ..MachineStatistics::default() };
            Run { machine, ..slowed(scenario, |setup| slowdown(program, step(setup))) }
        })
    }

    #[test]
    fn all_conclusions_hold_if_each_optimization_helps_and_the_first_most() {
        let found = by(|_, step| Some([2.0, 1.25, 1.125, 1.125][step]), |_| 9);
        let table = &found.tables[0];
        assert_eq!((table.printed("povray+namd"), table.rows.len()), ("2.000 1.250 1.125 1.125".into(), 9));
        assert_eq!(table.printed("average"), "2.000 1.250 1.125 1.125");
        assert_eq!(found.hold(), [true; 4]);
        let by_difference = by(|_, step| Some([4.0, 2.5, 1.25, 1.25][step]), |_| 9);
        assert!(by_difference.claims[2].holds, "the first step takes 1.5 off, the second 1.25");
        let of_pairs = "8 of 8 pairs; 40 of their pages re-placed without recycling, 24 with it";
        assert_eq!((&*found.claims[1].because, &*found.claims[3].because), ("2.00 to 2.00", of_pairs));
    }

    #[test]
    fn one_that_hurts_contradicts_them_where_one_tester_follows() {
        let last_hurts = |_: &str, step: usize| Some([1.0, 1.0, 0.5, 0.75][step]);
        assert_eq!(by(last_hurts, |_| 9).hold(), [false; 4]);
        let hurts_one = |program: &str, step: usize| {
            Some(if program == "bwaves" { [2.0, 1.25, 1.5, 1.5][step] } else { [2.0, 1.25, 1.0, 1.0][step] })
        };
        let of_claim = |found: Findings| (found.claims[3].holds, found.claims[3].because[..12].to_owned());
        assert_eq!(of_claim(by(hurts_one, |_| 9)), (false, "7 of 8 pairs".to_owned()));
        let not_followed = |program: &str| if program == "bwaves" { 10 } else { 9 };
        assert_eq!(of_claim(by(hurts_one, not_followed)), (true, "7 of 7 pairs".to_owned()), "one in twenty waits");
        assert_eq!(of_claim(by(hurts_one, |_| 10)), (false, "0 of 0 pairs".to_owned()), "no pair is followed");
    }

    #[test]
    fn comet_slows_the_pairs_by_1_5_to_2_3_if_they_lie_within_a_fifth_of_that() {
        let range = |least, most| {
            let found = findings(figure_31, move |scenario| {
                slowed(scenario, |_| Some(if scenario.programs[0] == "povray" { least } else { most }))
            });
            found.claims[1].holds
        };
        assert!(range(1.4, 2.4) && !range(1.2, 2.4) && !range(1.4, 2.6));
    }

    #[test]
    fn a_pair_that_stands_still_is_in_no_average() {
        let found = by(|program, step| (program != "bwaves" || step > 0).then_some(1.0), |_| 9);
        assert_eq!(found.tables[0].printed("bwaves+mcf"), "- 1.000 1.000 1.000");
        assert_eq!(found.tables[0].printed("average"), "1.000 1.000 1.000 1.000");
    }

    /// A short run of a past defect: when the lists of the first node were owed more than one tester can test, the
    /// second node got no tests.
    #[test]
    fn one_tester_serves_both_nodes() {
        let effort = Effort { longest: Duration::from_secs(50), ..Effort::short() };
        let runner = Runner::new(effort, rampart_sim::MachineAllocator::Buddy, &|_, _| {});
        let [.., (_, recycling), _] = one_more_each();
        let runs = runner.run(&on_t620([vec!["gromacs"; 5], vec!["sjeng"; 5]].concat(), recycling));
        let (on_demand, allocated) = (runs.count(|seen| seen.on_demand), runs.count(|seen| seen.allocated));
        assert!(on_demand * 20 < allocated, "{on_demand} of {allocated}");
    }
}
