//! `rampart project sweep --figure 3.1`: [Fiala15, fig. 3.1 and tab. 3.1 to 3.3], beside ours.

use std::fmt::Write as _;

use maud::html;
use rampart_scale::replicas::claims::{self, EXASCALE_NODES, LINES, ReplicaClaim};
use rampart_scale::replicas::recorded::{RELIABILITY, RecordedShares, SHARES};
use rampart_scale::replicas::{Degree, JAGUAR, PETASCALE};
use serde_json::{Value, json};

use super::curve::{ReplicaCurve, hours};
use super::view::{NAMES, crossover_document, crossover_text, job_document, job_text};
use super::{chart, write};
use crate::commands::project::arguments::SweepArguments;
use crate::error::Error;
use crate::output::html;
use crate::output::text::{self, count};

/// The nodes of the curves, and of the table's rows beside lines A to C.
const RANGE: (u32, u32) = (1000, 1_000_000);
const ROWS: [u32; 4] = [1000, 50_000, EXASCALE_NODES, 1_000_000];

/// What is not given, or does not fit together.
const NOTES: &str = "            the 10 minutes and the 20 % are assumed: [Fiala15] does not give them
            [Fiala15] calls 50 years of a node the same as 52 h of Jaguar; on 18,688 nodes they are 23.5 h
";

/// Computes the figure and the tables, shows them, and writes the requested files.
pub fn run(arguments: &SweepArguments) -> Result<(), Error> {
    if arguments.is_about_simulation() {
        return Err(Error::NothingSimulated);
    }
    let claims = claims::all();
    if arguments.json {
        text::print_json(&document(&claims))?;
    } else {
        text::print(&text(&claims))?;
    }
    let curve = || ReplicaCurve::between(JAGUAR, Degree::TRIPLE, RANGE.0, RANGE.1);
    write(arguments.csv.as_ref(), || curve().csv())?;
    write(arguments.html.as_ref(), || page(&claims, &curve()))
}

/// The rows of the figure as a table: the number of nodes, the line of the figure, hours for each number of replicas.
fn rows() -> Vec<(u32, &'static str, Vec<Option<f64>>)> {
    let mut rows: Vec<(u32, &str)> = ROWS.map(|nodes| (nodes, "")).to_vec();
    rows.extend(LINES.map(|(line, nodes)| (nodes, line)));
    rows.sort_unstable();
    let degrees: Vec<Degree> = Degree::TRIPLE.up_to().collect();
    rows.into_iter().map(|(nodes, line)| (nodes, line, hours(JAGUAR.on(nodes), &degrees))).collect()
}

fn text(claims: &[ReplicaClaim]) -> String {
    let mut text = String::from("figure 3.1: time to completion with 1, 2 and 3 replicas of each rank, in hours\n");
    text.push_str(&job_text(&JAGUAR));
    text.push_str(NOTES);
    let _ = writeln!(
        text,
        "{:>9} {:>4} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "nodes", "line", "1x", "2x", "3x", "1x twice", "1x thrice"
    );
    for (nodes, line, hours) in rows() {
        let single = hours.first().copied().flatten();
        let all = hours.iter().copied().chain([2.0, 3.0].map(|runs| single.map(|hours| runs * hours)));
        let [one, two, three, twice, thrice] = columns(all);
        let nodes = count(nodes.into());
        let _ = writeln!(text, "{nodes:>9} {line:>4} {one:>8} {two:>8} {three:>8} {twice:>10} {thrice:>10}");
    }
    text.push_str(&crossover_text(JAGUAR, Degree::TRIPLE));
    text.push_str("claims of [Fiala15]: a time agrees within 1 %, a share within 2 points, a factor within a tenth\n");
    for claim in claims {
        let _ = writeln!(
            text,
            "{:<15} [{}] {}: {}, here {}",
            sign(claim),
            claim.section,
            claim.words,
            claim.stated,
            claim.ours
        );
    }
    reliability(&mut text);
    shares(&mut text);
    text
}

/// Hours with one decimal.
fn columns(hours: impl Iterator<Item = Option<f64>>) -> [String; 5] {
    let mut columns: [String; 5] = Default::default();
    for (column, hours) in columns.iter_mut().zip(hours) {
        *column = hours.map_or_else(|| "never".to_owned(), |hours| format!("{hours:.1}"));
    }
    columns
}

fn sign(claim: &ReplicaClaim) -> &'static str {
    if claim.holds() { "agrees" } else { "does not agree" }
}

/// Table 3.1, which was recorded, and what follows from it for one CPU.
fn reliability(text: &mut String) {
    text.push_str("table 3.1: reliability of clusters, as recorded; the last column follows for one CPU\n");
    for system in RELIABILITY {
        let (name, cpus, printed) = (system.system, count(system.cpus.into()), system.printed);
        let _ = writeln!(text, "{name:<12} {cpus:>8} CPUs  {printed:<20} {:>8.1} years", years(system.of_one()));
    }
}

fn years(time: rampart_scale::Hours) -> f64 {
    time.per(rampart_scale::Hours::YEAR)
}

/// Tables 3.2 and 3.3, printed and modelled.
fn shares(text: &mut String) {
    let _ = writeln!(
        text,
        "tables 3.2 and 3.3: percent of the time of a job without replicas, [Fiala15] / here\n\
         a checkpoint takes {}, a restart {} [Fiala15, 3.8.2]",
        PETASCALE.checkpoint, PETASCALE.restart
    );
    let _ = writeln!(
        text,
        "table {:>9} {:>8} {:>9}  {:>11} {:>11} {:>11} {:>11}",
        "nodes", "job", "node MTBF", "work", "checkpoints", "rework", "restarts"
    );
    for row in SHARES {
        let [work, checkpoints, rework, restarts] = cells(&row);
        let (nodes, job, years) = (count(row.job.nodes.into()), row.job.work.get(), years(row.job.node_mtbf));
        let _ = writeln!(
            text,
            "3.{}   {nodes:>9} {job:>6} h {years:>7} y  {work:>11} {checkpoints:>11} {rework:>11} {restarts:>11}",
            row.table
        );
    }
}

/// What is printed, and ours, in percent.
fn cells(row: &RecordedShares) -> [String; 4] {
    let ours = row.modelled();
    std::array::from_fn(|column| format!("{} / {:.1}", row.percent[column], 100.0 * ours[column]))
}

fn document(claims: &[ReplicaClaim]) -> Value {
    let row = |(nodes, line, hours): (u32, &str, Vec<Option<f64>>)| {
        let line = Some(line).filter(|line| !line.is_empty());
        json!({ "nodes": nodes, "line": line, "hours": hours })
    };
    let claim = |claim: &ReplicaClaim| {
        json!({
            "section": claim.section, "words": claim.words, "stated": claim.stated.to_string(),
            "ours": claim.ours.to_string(), "agrees": claim.holds(),
        })
    };
    let share = |row: RecordedShares| {
        json!({
            "table": format!("3.{}", row.table), "job": job_document(&row.job), "percent": row.percent,
            "ours_percent": row.modelled().map(|share| 100.0 * share),
        })
    };
    let system = RELIABILITY.map(|system| {
        json!({
            "system": system.system, "cpus": system.cpus, "mtbf": system.printed,
            "years_of_one_cpu": years(system.of_one()),
        })
    });
    json!({
        "schema": "rampart.sweep.replicas/1",
        "figure": "3.1",
        "job": job_document(&JAGUAR),
        "assumed": ["checkpoint_hours", "restart_hours", "communication"],
        "rows": rows().into_iter().map(row).collect::<Vec<_>>(),
        "crossovers": crossover_document(JAGUAR, Degree::TRIPLE),
        "claims": claims.iter().map(claim).collect::<Vec<_>>(),
        "reliability": system,
        "shares": SHARES.map(share),
    })
}

fn page(claims: &[ReplicaClaim], curve: &ReplicaCurve) -> String {
    let title = "Figure 3.1: time to completion with replicas";
    let lines = LINES.map(|(line, nodes)| (line.to_owned(), nodes));
    let row = |claim: &ReplicaClaim| {
        let class = if claim.holds() { "good" } else { "bad" };
        vec![
            html! { (claim.words) },
            html! { (claim.stated) },
            html! { (claim.ours) },
            html! { span class=(class) { (sign(claim)) } },
        ]
    };
    let mut tables = String::new();
    reliability(&mut tables);
    shares(&mut tables);
    let body = html! {
        h1 { (title) }
        pre { (job_text(&JAGUAR)) (NOTES) }
        (html::figure(&NAMES, chart::svg(curve, &lines), ""))
        h2 { "The claims of [Fiala15]" }
        (html::table(&["statement", "#[Fiala15]", "#here", ""], claims.iter().map(row)))
        h2 { "Tables 3.1 to 3.3" }
        pre { (tables) }
    };
    html::document(title, &body)
}
