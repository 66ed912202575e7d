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
