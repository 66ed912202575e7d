//! [Rahman16, fig. 34]: Adaptive on H2, program by program and second by second.

use rampart_sim::Second;
use rampart_sim::workload::MIXES;

use super::super::outcome::{Measure, StudyClaim, Table, TableCell, mean};
use super::super::runs::Runner;
use super::super::scenario::Setup;
use super::super::{Findings, rahman};
use super::{on_t620, ours};

/// Seconds that are shown, as many as Rahman shows.
const SHOWN: usize = 30;

/// Seconds after a burst in which the pool refills: Rahman's example takes 11 (324 s to 335 s).
const AFTER: usize = 10;

pub fn figure_34(runner: &Runner<'_>) -> Findings {
    let h2 = MIXES.last().expect("eight mixes");
    let scenario = on_t620(h2.programs(), Setup::adaptive());
    let runs = runner.run(&scenario);
    let each = runner.slowdown_of_each(&scenario, &runs);
    let seconds = &runs.first().timeline;
    let (first, peak) = around_the_peak(seconds);
    let claims = vec![
        behind_in_the_peak(&seconds[peak], peak),
        refilled_after_it(&seconds[peak..]),
        slower_where_more_is_tested(&each),
    ];
    let remarks = vec![
        "Rahman's burst is the relaunch of a program; with programs that begin in the middle of their run, a minute need not \
         have one, and the highest demand is a swing that several share",
    ];
    Findings { tables: vec![instances(&h2.programs(), &each), timeline(seconds, first)], claims, remarks }
}

/// [Rahman16, fig. 34b]: demand and tests of the first seed.
fn timeline(seconds: &[Second], first: usize) -> Table {
    let rows = seconds.iter().enumerate().skip(first).take(SHOWN).map(|(at, seen)| {
        let rates = [seen.demand, seen.concurrent, seen.concurrent + seen.on_demand];
        (at.to_string(), ours(&rates.map(Some)))
    });
    let columns = ["demand", "concurrent", "concurrent+on demand"];
    Table::lines("Demand and testing", Measure::FramesPerSecond, "seconds", columns, rows)
}

/// [Rahman16, fig. 34a]: the slowdown of each program, with its core. Even cores belong to P1.
fn instances(programs: &[&str], each: &[Option<f64>]) -> Table {
    let known = |name: &str, core: usize| {
        (name == "gcc").then(|| if core.is_multiple_of(2) { rahman::FIGURE_34_GCC.0 } else { rahman::FIGURE_34_GCC.1 })
    };
    let rows = programs.iter().enumerate().map(|(core, name)| {
        (format!("{name} ({core})"), vec![TableCell { ours: each[core], published: known(name, core) }])
    });
    Table::bars("Slowdown of each program of H2", Measure::Slowdown, "program (core)", ["Adapt"], rows)
}

/// Returns the first second to show, and the second with the highest demand that enough others follow.
fn around_the_peak(timeline: &[Second]) -> (usize, usize) {
    let candidates = &timeline[..timeline.len().saturating_sub(AFTER).max(1)];
    let peak = candidates.iter().enumerate().max_by(|a, b| a.1.demand.total_cmp(&b.1.demand));
    let peak = peak.map_or(0, |(at, _)| at);
    (peak.saturating_sub(AFTER), peak)
}

fn behind_in_the_peak(seen: &Second, peak: usize) -> StudyClaim {
    StudyClaim::new(
        "a burst is more than the testers can follow (5.3.5)",
        seen.concurrent < seen.demand,
        format!(
            "at {peak} s {:.0} frames/s asked for, {:.0} tested ahead, {:.0} on demand",
            seen.demand, seen.concurrent, seen.on_demand
        ),
    )
}

fn refilled_after_it(from_the_peak: &[Second]) -> StudyClaim {
    let after = || from_the_peak.iter().skip(1).take(AFTER);
    let rate = |of: fn(&Second) -> f64| mean(after().map(of)).unwrap_or(f64::NAN);
    let (asked, tested) = (rate(|seen| seen.demand), rate(|seen| seen.concurrent + seen.on_demand));
    StudyClaim::new(
        "after it the test rate stays above demand, and fills the pool again (5.3.5)",
        tested > asked,
        format!("{tested:.0} tested, {asked:.0} asked for, frames/s over the next {AFTER} s"),
    )
}

fn slower_where_more_is_tested(each: &[Option<f64>]) -> StudyClaim {
    let on = |node: usize| mean(each.iter().skip(node).step_by(2).flatten().copied()).unwrap_or(f64::NAN);
    StudyClaim::new(
        "programs on P1, where more is tested, are slowed more than on P2 (5.3.5)",
        on(0) > on(1),
        format!("{:.3} and {:.3} on average", on(0), on(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::fake::{findings, run};
    use super::super::super::simulate::Run;
    use super::*;

    const fn second(demand: f64, concurrent: f64, on_demand: f64) -> Second {
        Second { demand, concurrent, on_demand }
    }

    /// Seconds with little demand, and a peak at one of them.
    fn with_peak(seconds: usize, peak: usize) -> Vec<Second> {
        (0..seconds).map(|at| second(if at == peak { 100.0 } else { 10.0 }, 11.0, 0.0)).collect()
    }

    #[test]
    fn a_peak_is_shown_from_ten_seconds_before_if_ten_follow() {
        let shown = |seconds, peak| around_the_peak(&with_peak(seconds, peak));
        assert_eq!([shown(60, 30), shown(60, 4), shown(60, 49)], [(20, 30), (0, 4), (39, 49)]);
        assert_ne!(shown(60, 50).1, 50, "nine seconds follow");
        assert_eq!(shown(5, 3), (0, 0), "a run that is too short");
    }

    fn by(timeline: Vec<Second>, work_on_even: f64) -> Findings {
        findings(figure_34, move |scenario| {
            let is_tested = scenario.setup.is_some();
            let work = |core: usize| if is_tested && core.is_multiple_of(2) { work_on_even } else { 1.0 };
            let work = (0..scenario.programs.len()).map(work).collect();
            Run { timeline: timeline.clone(), ..run(work) }
        })
    }

    #[test]
    fn each_program_has_its_core_and_each_second_its_tests() {
        let mut timeline = with_peak(60, 30);
        timeline[21] = second(7.0, 3.0, 2.0);
        let found = by(timeline, 0.5);
        let [programs, seconds] = &found.tables[..] else { panic!("two tables") };
        let slowdowns: Vec<_> = programs.column("Adapt").collect();
        assert_eq!((slowdowns.len(), slowdowns[0], slowdowns[1]), (12, Some(2.0), Some(1.0)));
        let published = programs.published();
        assert!(!published.is_empty());
        for (row, _, known) in published {
            let core: usize = row.strip_prefix("gcc (").unwrap().strip_suffix(')').unwrap().parse().unwrap();
            assert_eq!(known, if core.is_multiple_of(2) { 1.04 } else { 1.02 }, "P1 has the even cores");
        }
        assert_eq!((seconds.rows.len(), &*seconds.rows[0].0), (30, "20"));
        assert_eq!(seconds.printed("21"), "7.000 3.000 5.000");
        assert_eq!(found.hold(), [true, true, true]);
        assert_eq!(found.claims[0].because, "at 30 s 100 frames/s asked for, 11 tested ahead, 0 on demand");
        assert_eq!(found.claims[1].because, "11 tested, 10 asked for, frames/s over the next 10 s");
        assert_eq!(found.claims[2].because, "2.000 and 1.000 on average");
    }

    #[test]
    fn testers_that_follow_the_peak_and_no_more_contradict_the_thesis() {
        assert_eq!(by(vec![second(10.0, 10.0, 0.0); 30], 1.0).hold(), [false, false, false]);
        assert_eq!(by(vec![second(10.0, 8.0, 2.5); 30], 1.0).hold(), [true, true, false], "also those on demand count");
        assert_eq!(by(vec![second(10.0, 11.0, 0.0); 30], 2.0).hold(), [false, true, false]);
        assert_eq!(by(vec![second(10.0, 6.0, 3.0); 30], 0.5).hold(), [true, false, true]);
    }
}
