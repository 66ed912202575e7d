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
    use super::*;

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
