//! The page of a job: what was run, what was compared, and each mismatch.
//!
//! One document without scripts, as all pages of ours; text from outside goes through `output::html`.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::arguments::MpirunArguments;
use super::output::OutputMismatch;
use super::reports::{Injected, JobReport, ReplicaMismatch};
use super::study::PropagationStudy;
use crate::output::chart::{Bars, Chart, HeatMap};
use crate::output::html::{self, document, figure};
use crate::output::text::count;

/// The most mismatches in the table; the JSON has all.
const MISMATCHES_SHOWN: usize = 500;

/// The number of points of a line.
const PARTS: u64 = 184;

/// A job that has ended.
pub struct EndedJob<'a> {
    pub arguments: &'a MpirunArguments,
    pub report: &'a JobReport,
    pub study: Option<&'a PropagationStudy>,
    /// How the launcher ended.
    pub ended: String,
}

/// The page.
pub fn of_job(job: &EndedJob<'_>) -> String {
    let report = job.report;
    let (class, verdict) = verdict(job);
    let tiles = [
        (count(report.compared), "messages compared"),
        (count(report.messages() as u64), "differed"),
        (count(report.replaced), "replaced"),
        (count(report.injections.len() as u64), "bits flipped"),
        (format!("{} of {}", report.ended, report.began), "processes came to their end"),
    ];
    let body = html! {
        (head("Replicas", job))
        p class=(class) { (verdict) }
        (html::tiles(tiles))
        (drawings(job))
        (mismatches(report))
        (injections(&report.injections))
        (others(report))
    };
    document(&job.arguments.program_line(), &body)
}

/// What was run, for each page about it.
pub fn head(title: &str, job: &EndedJob<'_>) -> Markup {
    let arguments = job.arguments;
    let (ranks, replicas) = (arguments.n.get(), arguments.replicas);
    let flip = arguments.inject.as_ref().map_or_else(String::new, |flip| format!("; injected: {flip}"));
    let nodes: BTreeSet<&String> = job.report.nodes.values().collect();
    let nodes = if nodes.len() == 1 { "1 node".to_owned() } else { format!("{} nodes", nodes.len()) };
    html! {
        h1 { (title) ": " code { (arguments.program_line()) } }
        p.soft { (ranks) " ranks of " (replicas) " replicas on " (nodes) "; " (job.ended) (flip) }
    }
}

fn verdict(job: &EndedJob<'_>) -> (&'static str, String) {
    let report = job.report;
    let has = |verdict: &str| report.mismatches.iter().any(|one| one.verdict == verdict);
    let differ = !report.outputs.is_empty() || !report.files.is_empty();
    if let Some(line) = report.early_end_line() {
        return ("bad", format!("The job did not come to its end: {line}."));
    }
    match &report.stopped {
        Some(why) if report.has_diverged => ("bad", format!("Replicas left their common path: {why}")),
        Some(why) => ("bad", format!("The job was stopped: {why}")),
        None if report.began == 0 => ("bad", "The program did not begin with MPI: nothing was compared.".to_owned()),
        None if job.study.is_some() => ("bad", "Nothing was corrected: each replica kept what it received.".to_owned()),
        None if has("undecided") => ("bad", "Replicas differed without a majority: results may be wrong.".to_owned()),
        None if has("kept") => ("bad", "Wrong messages were not corrected: results may be wrong.".to_owned()),
        None if differ => ("bad", "Replicas printed or wrote different things.".to_owned()),
        None if report.mismatches.is_empty() => ("good", "No replica differed.".to_owned()),
        None => ("good", "Every wrong message was replaced by the right one.".to_owned()),
    }
}

/// Each message that differed, by rank and number.
fn differing(report: &JobReport) -> BTreeMap<(u32, u64), u64> {
    let place = |one: &ReplicaMismatch| Some(((one.rank, one.known("number")?), 1));
    report.mismatches.iter().filter_map(place).collect()
}

fn drawings(job: &EndedJob<'_>) -> Markup {
    let differing = differing(job.report);
    let Some(last) = differing.keys().map(|&(_, number)| number).max() else { return html! {} };
    let ranks = job.arguments.n.get() as usize;
    let mut by_rank = vec![0; ranks];
    let parts = PARTS.min(last + 1);
    let mut over = vec![0.0; index(parts)];
    let mut counts = BTreeMap::new();
    for (&(rank, number), one) in &differing {
        let (rank, part) = (rank as usize, index(number * parts / (last + 1)));
        if let Some(of_rank) = by_rank.get_mut(rank) {
            *of_rank += one;
        }
        over[part] += 1.0;
        *counts.entry((part, rank)).or_insert(0) += one;
    }
    let (measure, of_rank) = ("messages that differed", "message of the rank");
    let bars = Bars { measure, over: "rank", values: by_rank };
    let lines = vec![("", over)];
    let chart = Chart { measure, over: of_rank, length: (last + 1) as f64, max: None, lines };
    let across = (if last < PARTS { of_rank } else { "part of the messages of the rank" }, index(parts));
    let map = HeatMap { across, up: ("rank", ranks), counts };
    html! {
        h2 { "Messages that differed" }
        (figure(&[], bars.svg(), "by rank"))
        (figure(&[], chart.svg(), "in all ranks, by their number in the order in which a rank compares"))
        (figure(&[], map.svg(), "both"))
    }
}

/// A number of parts, of which there are few.
pub fn index(part: u64) -> usize {
    usize::try_from(part).expect("few parts")
}

fn shown(number: Option<u64>) -> String {
    number.map_or_else(|| "–".to_owned(), count)
}

fn listed(numbers: &[u32]) -> String {
    if numbers.is_empty() {
        return "–".to_owned();
    }
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn mismatches(report: &JobReport) -> Markup {
    if report.mismatches.is_empty() {
        return html! {};
    }
    let heads = [
        "#rank",
        "#replica",
        "what",
        "#peer",
        "#tag",
        "#bytes",
        "#first difference",
        "#number",
        "#step",
        "wrong replicas",
        "verdict",
        "their node",
    ];
    let row = |one: &ReplicaMismatch| {
        let sender = one.sender().unwrap_or(one.rank);
        let mut nodes: Vec<&str> = one.wrong.iter().filter_map(|&replica| node(report, sender, replica)).collect();
        nodes.dedup();
        vec![
            one.rank.to_string(),
            one.replica.to_string(),
            one.what.clone(),
            shown(one.known("peer")),
            shown(one.known("tag")),
            shown(one.known("bytes")),
            shown(one.known("offset")),
            shown(one.known("number")),
            shown(one.known("step")),
            listed(&one.wrong),
            one.verdict.clone(),
            if nodes.is_empty() { "–".to_owned() } else { nodes.join(", ") },
        ]
    };
    html! {
        h2 { "Mismatches" }
        (html::table(&heads, report.mismatches.iter().take(MISMATCHES_SHOWN).map(row)))
        (more(report.mismatches.len(), MISMATCHES_SHOWN))
    }
}

/// Says how many rows a table does not have.
pub fn more(all: usize, most: usize) -> Markup {
    html! {
        @if all > most {
            p.soft { (count((all - most) as u64)) " more are in the JSON (--json)." }
        }
    }
}

fn node(report: &JobReport, rank: u32, replica: u32) -> Option<&str> {
    report.nodes.get(&(rank, replica)).map(String::as_str)
}

fn injections(injections: &[Injected]) -> Markup {
    if injections.is_empty() {
        return html! {};
    }
    let heads = ["#rank", "#replica", "#message", "#to", "#tag", "#bytes", "#bit", "#step"];
    let row = |one: &Injected| {
        let numbers = ["message", "to", "tag", "bytes", "bit", "step"].map(|name| shown(one.known(name)));
        [one.rank.to_string(), one.replica.to_string()].into_iter().chain(numbers).collect()
    };
    html! {
        h2 { "Bits that were flipped" }
        (html::table(&heads, injections.iter().take(MISMATCHES_SHOWN).map(row)))
        (more(injections.len(), MISMATCHES_SHOWN))
    }
}

/// What else differed, and on which nodes.
fn others(report: &JobReport) -> Markup {
    let printed = |one: &OutputMismatch| match one.wrong {
        Some(wrong) => format!("replica {wrong} of rank {} from byte {} on", one.rank, count(one.offset)),
        None => format!("replicas of rank {} from byte {} on; there is no majority", one.rank, count(one.offset)),
    };
    let nodes = report.erring_nodes();
    let nodes = nodes.iter().map(|(node, times)| format!("{node}: {} wrong", count(*times as u64)));
    let lists = [
        ("What was printed differently", report.outputs.iter().map(printed).collect::<Vec<_>>()),
        ("Files that were written differently", report.file_lines().collect()),
        ("Nodes that erred", nodes.collect()),
    ];
    html! {
        @for (title, lines) in lists.iter().filter(|(_, lines)| !lines.is_empty()) {
            h2 { (title) }
            @for line in lines {
                p { (line) }
            }
        }
    }
}
