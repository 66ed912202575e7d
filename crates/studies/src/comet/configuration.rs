//! COMeT's three parameters: the window, δ and replenish-δ [Rahman16, 4.2.3].

use std::time::Duration;

use super::super::outcome::{Measure, StudyClaim, range};
use super::super::runs::Runner;
use super::super::scenario::Setup;
use super::super::{Findings, rahman};
use super::{slowdowns, table};
use rampart_diagnostic::control::ControlSettings;

/// The programs that most of [Rahman16, 4.2.3] is about, the least demanding first.
const SUBSET: [&str; 7] = ["povray", "calculix", "gromacs", "zeusmp", "mcf", "gemsFDTD", "bzip2"];

pub fn window(runner: &Runner<'_>) -> Findings {
    let programs = ["calculix", "zeusmp", "cactusADM", "gemsFDTD", "mcf", "gromacs"];
    let setups = [120, 180, 240]
        .map(|seconds| Setup::comet().with_lifetime(Duration::from_secs(seconds), Duration::from_secs(10)));
    let values = slowdowns(runner, &programs, &setups);
    let known = |name: &str, at| {
        let (_, two, three) = rahman::WINDOW.into_iter().find(|(row, ..)| *row == name)?;
        [Some(two), three, None][at]
    };
    let table = table(Measure::Slowdown, &programs, &["2 min", "3 min", "4 min"], &values, known);
    let [two, three, four] = ["2 min", "3 min", "4 min"].map(|column| table.average(column));
    let claims = vec![
        StudyClaim::new("two minutes are the worst (4.2.3)", two > three, format!("{two:.3}, {three:.3} at three")),
        StudyClaim::new(
            "four have little gain over three (4.2.3)",
            (three - four).abs() < (two - three).abs(),
            format!("{three:.3} and {four:.3}"),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}

pub fn delta(runner: &Runner<'_>) -> Findings {
    let programs = ["zeusmp", "calculix", "mcf", "gromacs"];
    let columns = ["5 s", "10 s", "20 s", "30 s"];
    let setups = [5, 10, 20, 30]
        .map(|seconds| Setup::comet().with_lifetime(Duration::from_secs(180), Duration::from_secs(seconds)));
    let values = slowdowns(runner, &programs, &setups);
    let known = |name: &str, at: usize| (name == "zeusmp").then(|| rahman::DELTA_ZEUSMP[at]);
    let table = table(Measure::Slowdown, &programs, &columns, &values, known);
    let (least, most) = range(columns.map(|column| table.average(column)));
    let spread = most - least;
    let claims =
        vec![StudyClaim::new("δ makes only a small change (4.2.3)", spread < 0.03, format!("{spread:.3} on average"))];
    let remarks = vec![
        "here a page is looked up δ before it expires and re-placed in the last second, so that δ changes little; Rahman's \
         handler re-places at once all that expire in the next δ (figure 6), which takes more tested frames than COMeT keeps",
    ];
    Findings { tables: vec![table], claims, remarks }
}

/// COMeT with this replenish-δ, in milliseconds.
fn every(millis: u64) -> Setup {
    let comet = Setup::comet();
    Setup { settings: ControlSettings { monitoring: Duration::from_millis(millis), ..comet.settings }, ..comet }
}

pub fn figure_14(runner: &Runner<'_>) -> Findings {
    let setups = [15, 25, 35, 45].map(every);
    let values = slowdowns(runner, &SUBSET, &setups);
    let known = |name: &str, at: usize| {
        if name == "average" { rahman::FIGURE_14_AVERAGE.get(at).copied() } else { None }
    };
    let columns = ["15 ms", "25 ms", "35 ms", "45 ms"];
    let table = table(Measure::Slowdown, &SUBSET, &columns, &values, known);
    let [at_15, at_25, at_35, at_45] = columns.map(|column| table.average(column));
    let claims = vec![
        StudyClaim::new("15 ms costs more than 25 ms (4.2.3)", at_15 > at_25, format!("{at_15:.3} and {at_25:.3}")),
        StudyClaim::new(
            "25, 35 and 45 ms differ little (4.2.3)",
            (at_25 - at_45).abs() <= (at_15 - at_25).abs().max(0.005),
            format!("{at_25:.3}, {at_35:.3} and {at_45:.3}"),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: vec!["Rahman's average is over all of SPEC, ours over seven"] }
}

#[cfg(test)]
mod tests {
    use super::super::super::Effort;
    use super::super::super::fake::with_slowdowns;
    use super::*;
    use rampart_sim::MachineAllocator;

    fn by_window(two: f64, three: f64, four: f64) -> Findings {
        with_slowdowns(window, move |_, setup| match setup.settings.lifetime.lifetime().as_secs() {
            120 => Some(two),
            180 => Some(three),
            _ => Some(four),
        })
    }

    #[test]
    fn a_longer_window_slows_less_and_four_minutes_gain_little() {
        let found = by_window(1.25, 1.125, 1.0625);
        assert_eq!(found.tables[0].printed("mcf"), "1.250 1.125 1.062");
        let published = [
            ("calculix", "2 min", 1.10),
            ("calculix", "3 min", 1.03),
            ("zeusmp", "2 min", 1.08),
            ("zeusmp", "3 min", 1.04),
            ("cactusADM", "2 min", 1.11),
            ("gemsFDTD", "2 min", 1.11),
        ];
        assert_eq!(found.tables[0].published(), published);
        assert_eq!(found.hold(), [true, true]);
        assert_eq!(by_window(1.125, 1.125, 1.25).hold(), [false, false]);
        assert_eq!(by_window(1.25, 1.125, 1.0).hold(), [true, false], "as much as from two to three");
    }

    fn by_delta(slowdowns: [f64; 4]) -> Findings {
        with_slowdowns(delta, move |_, setup| {
            let at = [5, 10, 20, 30].iter().position(|&seconds| setup.settings.lifetime.delta().as_secs() == seconds);
            Some(slowdowns[at.unwrap()])
        })
    }

    #[test]
    fn delta_changes_little_if_the_least_and_the_most_lie_close() {
        let found = by_delta([1.125, 1.125, 1.25, 1.0]);
        assert_eq!(found.tables[0].printed("mcf"), "1.125 1.125 1.250 1.000");
        let published: Vec<_> = found.tables[0].published().into_iter().map(|(row, _, known)| (row, known)).collect();
        assert_eq!(published, rahman::DELTA_ZEUSMP.map(|known| ("zeusmp", known)));
        assert_eq!((found.hold(), found.claims[0].because.as_str()), (vec![false], "0.250 on average"));
        assert_eq!(by_delta(rahman::DELTA_ZEUSMP).hold(), [true]);
    }

    fn by_period(slowdowns: [f64; 4]) -> Findings {
        with_slowdowns(figure_14, move |_, setup| {
            let millis = setup.settings.monitoring.as_millis();
            [15, 25, 35, 45].iter().position(|&known| known == millis).map(|at| slowdowns[at])
        })
    }

    #[test]
    fn only_the_shortest_period_costs_more() {
        let found = by_period([1.25, 1.125, 1.125, 1.0625]);
        assert_eq!(found.tables[0].printed("povray"), "1.250 1.125 1.125 1.062");
        assert_eq!(found.tables[0].published(), [("average", "15 ms", 1.06), ("average", "25 ms", 1.04)]);
        assert_eq!(found.hold(), [true, true]);
        assert_eq!(by_period([1.125; 4]).hold(), [false, true]);
        assert_eq!(by_period([1.25, 1.125, 1.125, 1.0]).hold(), [true, true], "no more than 15 and 25 ms differ");
        assert_eq!(by_period([1.125, 1.125, 1.125, 1.25]).hold(), [false, false]);
        assert_eq!(by_period([1.125, 1.125, 1.125, 1.128]).hold(), [false, true], "0.003 is little in any case");
    }

    /// [Rahman16, 4.2.3]: a shorter period costs also the least demanding program something, since handlers are called
    /// more often. docs/experiments.md has the price: 20 µs for each of four calls. The rest of the difference is the
    /// walk past tested blocks.
    #[test]
    fn each_call_of_a_handler_takes_its_time_from_the_program() {
        const CALLS: f64 = 4.0;
        const SECONDS: f64 = 20e-6;
        let runner = Runner::new(Effort::short(), MachineAllocator::Buddy, &|_, _| {});
        let slowdown = slowdowns(&runner, &["povray"], &[15, 45].map(every));
        let [often, seldom] = slowdown[0][..] else { unreachable!("two periods") };
        let difference = often.unwrap() - seldom.unwrap();
        let calls_alone = CALLS * SECONDS * (1.0 / 0.015 - 1.0 / 0.045);
        assert!((calls_alone..1.5 * calls_alone).contains(&difference), "{difference}, calls alone {calls_alone}");
    }
}
