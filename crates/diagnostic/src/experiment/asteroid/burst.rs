//! Figure 34: Adaptive on H2, program by program and second by second.

use rampart_sim::workload::MIXES;

use super::super::Findings;
use super::super::outcome::{Claim, Drawn, Measure, Table};
use super::super::runs::Runner;
use super::super::scenario::Setup;
use super::{on_t620, ours};

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
