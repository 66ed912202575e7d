//! The gain of migration and of adaptive rates [Rahman16, 4.2.4, fig. 15 and 16].

use rampart_memory::FreeList;

use super::super::outcome::{Measure, StudyClaim};
use super::super::runs::{Runner, Runs};
use super::super::scenario::{Rule, Scenario, Setup};
use super::super::{Findings, rahman};
use super::{alone, coverages, slowdowns, spec, table};

pub fn figure_15(runner: &Runner<'_>) -> Findings {
    let setups = [Setup::comet(), Setup { migration: false, ..Setup::comet() }];
    let columns = ["with migration", "without"];
    let values = coverages(runner, &spec(), &setups);
    let known = |name: &str, at| {
        let (_, with, without) = rahman::FIGURE_15.into_iter().find(|(row, ..)| *row == name)?;
        Some([with, without][at])
    };
    let table = table(Measure::Coverage, &spec(), &columns, &values, known);
    let lost = |row| table.number(row, "with migration") - table.number(row, "without");
    let claims = vec![
        StudyClaim::new(
            "without migration coverage falls (4.2.4)",
            lost("average") > 0.03,
            format!("{:.3} to {:.3} on average", table.average("with migration"), table.average("without")),
        ),
        StudyClaim::new(
            "most for programs that hold pages long, such as zeusmp; little for calculix, mcf and milc (4.2.4)",
            ["calculix", "mcf", "milc"].iter().all(|program| lost(program) < lost("zeusmp")),
            ["zeusmp", "calculix", "mcf", "milc"].map(|program| format!("{program} {:.2}", lost(program))).join(", "),
        ),
    ];
    let remarks = vec![
        "no evidence: the share of pages that programs hold to their end is calibrated on this figure, on zeusmp's loss and on \
         the average one",
        "Rahman counts the age of a page from its allocation (4.1.2), so that turnover replaces it; here it counts from its \
         test, whoever has the page, and programs that replace much, such as mcf, lose as much as those that hold it",
    ];
    Findings { tables: vec![table], claims, remarks }
}

/// The mean number of blocks requested from each list in a monitoring period.
type Profile = Vec<(FreeList, f64)>;

fn profile(runs: &Runs) -> Profile {
    let lists = runs.first().asked.iter().enumerate();
    lists.map(|(at, &(list, _))| (list, runs.mean(|run| run.asked[at].1))).collect()
}

/// Returns, for each list, the rate that `pick` selects from those of all profiles.
fn across(profiles: &[Profile], pick: fn(f64, f64) -> f64) -> Profile {
    let picked = |at: usize| profiles.iter().map(|profile| profile[at].1).reduce(pick).unwrap_or(0.0);
    profiles[0].iter().enumerate().map(|(at, &(list, _))| (list, picked(at))).collect()
}

pub fn figure_16(runner: &Runner<'_>) -> Findings {
    let on_demand: Vec<Scenario> = spec().into_iter().map(|program| alone(program, Setup::on_demand())).collect();
    let profiles: Vec<Profile> = runner.run_all(&on_demand).iter().map(profile).collect();
    let steady = |rates: Profile| Setup { rule: Rule::Steady(rates), ..Setup::comet() };
    let (min, max) = (steady(across(&profiles, f64::min)), steady(across(&profiles, f64::max)));
    let mut values = Vec::new();
    for (program, profile) in spec().into_iter().zip(profiles) {
        let setups = [min.clone(), max.clone(), steady(profile), Setup::comet()];
        values.extend(slowdowns(runner, &[program], &setups));
    }
    let known = |name: &str, at: usize| match (name, at) {
        ("average", 2) => Some(rahman::FIGURE_16_AVERAGE[0]),
        ("average", 3) => Some(rahman::FIGURE_16_AVERAGE[1]),
        _ => None,
    };
    let columns = ["Min", "Max", "Application", "Adaptive"];
    let table = table(Measure::Slowdown, &spec(), &columns, &values, known);
    let [min, max, application, adaptive] = columns.map(|column| table.average(column));
    let claims = vec![
        StudyClaim::new(
            "with the least rates programs are tested on demand, and slow (4.2.4)",
            min > application + 0.02,
            format!("Min {min:.3}, Application {application:.3}"),
        ),
        StudyClaim::new(
            "the highest rates cost more than a program's own (4.2.4)",
            max >= application,
            format!("Max {max:.3}"),
        ),
        StudyClaim::new(
            "adaptive rates come close to a program's own, without a profile (4.2.4)",
            adaptive <= application + 0.02,
            format!("Adaptive {adaptive:.3}"),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake::{ONE_SEED, findings, run, slowed};
    use super::super::super::simulate::Run;
    use super::*;
    use rampart_memory::{BlockOrder, Node};

    fn by_coverage(coverage: fn(&str, bool) -> f64) -> Findings {
        findings(figure_15, move |scenario| {
            let migrates = scenario.setup.as_ref().is_some_and(|setup| setup.migration);
            Run { coverage: coverage(scenario.programs[0], migrates), ..run(vec![1.0]) }
        })
    }

    #[test]
    fn coverage_falls_without_migration_and_most_where_pages_are_held() {
        let found = by_coverage(|program, migrates| match (program, migrates) {
            (_, true) => 0.75,
            ("zeusmp", false) => 0.25,
            _ => 0.5,
        });
        assert_eq!(found.tables[0].printed("zeusmp"), "0.750 0.250");
        let published: Vec<_> = found.tables[0].published().into_iter().map(|(row, _, known)| (row, known)).collect();
        let expected = [("zeusmp", 0.716), ("zeusmp", 0.347), ("gemsFDTD", 0.961), ("gemsFDTD", 0.801)];
        assert_eq!(published, [&expected[..], &[("average", 0.514), ("average", 0.415)]].concat());
        assert_eq!(found.hold(), [true, true]);
        assert_eq!(found.claims[1].because, "zeusmp 0.50, calculix 0.25, mcf 0.25, milc 0.25");
        assert_eq!(by_coverage(|_, _| 0.5).hold(), [false, false]);
        assert_eq!(by_coverage(|_, migrates| if migrates { 0.52 } else { 0.5 }).hold(), [false, false], "too little");
        let all_fall = by_coverage(|_, migrates| if migrates { 0.5 } else { 0.25 });
        assert_eq!(all_fall.hold(), [true, false], "zeusmp no more than others");
    }

    const fn list(order: BlockOrder) -> FreeList {
        FreeList { node: Node(0), order }
    }

    #[test]
    fn the_least_and_the_highest_rate_are_those_of_any_program() {
        let lists = |one, two| vec![(list(BlockOrder::ZERO), one), (list(BlockOrder::MAX), two)];
        let profiles = [lists(1.0, 6.0), lists(3.0, 2.0)];
        assert_eq!(across(&profiles, f64::min), lists(1.0, 2.0));
        assert_eq!(across(&profiles, f64::max), lists(3.0, 6.0));
    }

    /// The slowdown by the rate, and with adaptive rates. On demand, povray asks for one frame in each period, mcf for
    /// three, and each other program for two.
    fn by_rate(slowdown: fn(f64) -> f64, adaptive: f64) -> Findings {
        findings(figure_16, move |scenario| {
            let own = match scenario.programs[0] {
                "povray" => 1.0,
                "mcf" => 3.0,
                _ => 2.0,
            };
            let of = |setup: &Setup| match &setup.rule {
                Rule::Steady(rates) => Some(slowdown(rates[0].1)),
                _ => Some(adaptive),
            };
            Run { asked: vec![(list(BlockOrder::ZERO), own)], ..slowed(scenario, of) }
        })
    }

    #[test]
    fn each_program_runs_at_its_own_rate_and_at_the_least_and_the_highest_of_all() {
        let found = by_rate(|rate| rate, 4.0);
        let table = &found.tables[0];
        let printed = ["povray", "gcc", "mcf"].map(|program| table.printed(program));
        assert_eq!(printed, ["1.000 3.000 1.000 4.000", "1.000 3.000 2.000 4.000", "1.000 3.000 3.000 4.000"]);
        assert_eq!(table.published(), [("average", "Application", 1.03), ("average", "Adaptive", 1.04)]);
        assert_eq!(found.hold(), [false, true, false]);
    }

    #[test]
    fn a_profile_is_the_mean_over_the_seeds() {
        let simulate = |_: &Scenario, _, seed: u64, _| Run {
            asked: vec![(list(BlockOrder::ZERO), if seed == 1 { 1.0 } else { 4.0 })],
            ..run(vec![1.0])
        };
        let runner = Runner::fake(&simulate, super::super::super::Effort { seeds: 2, ..ONE_SEED });
        let runs = runner.run(&alone("mcf", Setup::on_demand()));
        assert_eq!(profile(&runs), [(list(BlockOrder::ZERO), 2.5)]);
    }

    #[test]
    fn low_rates_cost_the_programs_high_ones_the_tester_and_adaptive_ones_nothing() {
        let as_in_the_thesis = |rate| if rate == 2.0 { 1.0 } else { 1.25 };
        assert_eq!(by_rate(as_in_the_thesis, 1.0).hold(), [true, true, true]);
        assert_eq!(by_rate(as_in_the_thesis, 1.125).hold(), [true, true, false]);
        assert_eq!(by_rate(|_| 1.25, 1.25).hold(), [false, true, true], "all cost the same");
        let by_a_hundredth = |rate| if rate < 2.0 { 1.01 } else { 1.0 };
        assert_eq!(by_rate(by_a_hundredth, 1.01).hold(), [false, false, true]);
    }
}
