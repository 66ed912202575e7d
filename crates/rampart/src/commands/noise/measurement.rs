//! A measurement as a table for people, as JSON for programs, and as a page.

use std::fmt::Write as _;

use maud::html;
use rampart_linux::CapabilityState;
use rampart_scale::noise::{DetourSummary, Noise, OfCpu};
use rampart_scale::time::Time;
use serde_json::{Value, json};

use super::chart;
use super::injection::InjectionLog;
use super::plan::InjectionPlan;
use crate::output::html;
use crate::output::text;

/// The detours of a measurement, and its conditions.
pub struct NoiseMeasurement {
    /// The detours.
    pub noise: Noise,
    /// The rate of the counter.
    pub ticks_per_second: f64,
    /// Where the rate is from.
    pub source: &'static str,
    /// Whether errors could be injected here.
    pub injection: CapabilityState,
    /// The errors that were injected meanwhile, if requested.
    pub injected: Option<InjectionLog>,
    /// The plan of a dry run.
    pub plan: Option<InjectionPlan>,
    /// Whether the measurement was stopped early.
    pub stopped: bool,
}

/// The rows of the table: one for each CPU, and one for all.
fn rows(noise: &Noise) -> Vec<(String, DetourSummary)> {
    let mut rows: Vec<(String, DetourSummary)> =
        noise.cpus.iter().map(|of| (of.cpu.to_string(), DetourSummary::of([of]))).collect();
    if rows.len() > 1 {
        rows.push(("all".to_owned(), DetourSummary::of(&noise.cpus)));
    }
    rows
}

const HEADS: [&str; 8] = ["CPU", "detours", "a second", "of the time", "shortest", "median", "99 %", "longest"];

fn cells((name, summary): &(String, DetourSummary)) -> [String; 8] {
    let length = |place: usize| summary.lengths.map_or_else(|| "-".to_owned(), |lengths| lengths[place].to_string());
    let (count, rate) = (text::count(summary.count), format!("{:.1}", summary.per_second));
    let share = format!("{:.4} %", 100.0 * summary.share);
    [name.clone(), count, rate, share, length(0), length(1), length(2), length(3)]
}

impl NoiseMeasurement {
    /// The table, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |cells: &[String; 8]| {
            let _ = write!(text, "{:<4}", cells[0]);
            let rest: String = cells[1..].iter().map(|cell| format!(" {cell:>13}")).collect();
            let _ = writeln!(text, "{rest}");
        };
        row(&HEADS.map(str::to_owned));
        rows(&self.noise).iter().for_each(|of| row(&cells(of)));
        for line in self.remarks() {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// The lines below the table.
    fn remarks(&self) -> Vec<String> {
        let watched = self.noise.cpus.iter().map(|of| of.watched).max().unwrap_or_default();
        let stopped = if self.stopped { ", until it was stopped" } else { "" };
        let mut lines = vec![
            format!("watched     {watched} each{stopped}; a detour is longer than {}", self.noise.threshold),
            format!("counter     {:.6} GHz, invariant; its rate was {}", self.ticks_per_second / 1e9, self.source),
        ];
        match (&self.injected, &self.injection) {
            (Some(injected), _) => lines.extend(injected.lines(&self.noise)),
            (None, CapabilityState::Available { detail }) => {
                lines.push(format!("injection   --errors-every measures the detours of corrected errors: {detail}"));
            }
            (None, CapabilityState::Absent(absence)) => {
                lines.push(format!("injection   no error can be injected here: {absence}"));
            }
        }
        let beyond: u64 = self.noise.cpus.iter().map(|of| of.beyond).sum();
        if beyond > 0 {
            lines.push(format!(
                "not kept    {} more were counted but not recorded: raise --threshold",
                text::count(beyond)
            ));
        }
        lines
    }

    /// JSON, for programs.
    pub fn document(&self) -> Value {
        let of = |(name, summary): &(String, DetourSummary)| {
            let lengths = summary.lengths.map(|lengths| lengths.map(Time::nanos));
            json!({
                "cpu": name, "detours": summary.count, "per_second": summary.per_second, "share": summary.share,
                "shortest_ns": lengths.map(|of| of[0]), "median_ns": lengths.map(|of| of[1]),
                "p99_ns": lengths.map(|of| of[2]), "longest_ns": lengths.map(|of| of[3]),
            })
        };
        json!({
            "schema": "rampart.noise/1",
            "threshold_ns": self.noise.threshold.nanos(),
            "watched_seconds": self.noise.cpus.iter().map(|of| of.watched.as_secs_f64()).fold(0.0, f64::max),
            "stopped": self.stopped,
            "counter": { "ticks_per_second": self.ticks_per_second, "invariant": true, "source": self.source },
            "injection": self.injection,
            "plan": self.plan.as_ref().map(InjectionPlan::document),
            "errors": self.injected.as_ref().map(|injected| injected.document(&self.noise)),
            "cpus": rows(&self.noise).iter().map(of).collect::<Vec<_>>(),
        })
    }

    /// The page, with a drawing of each CPU.
    pub fn page(&self) -> String {
        let title = "Detours: how often and how long this machine takes its CPUs from programs";
        let rows = rows(&self.noise).into_iter().map(|row| cells(&row).to_vec());
        let end = |of: &OfCpu| of.detours.last().map_or(of.watched, |last| of.watched.max(last.start));
        let seconds = self.noise.cpus.iter().map(end).max().unwrap_or_default().as_secs_f64().max(1e-6);
        let longest = DetourSummary::of(&self.noise.cpus).lengths.map_or(Time::ZERO, |lengths| lengths[3]);
        let errors: Vec<Time> = self.injected.iter().flat_map(InjectionLog::moments).collect();
        let body = html! {
            h1 { (title) }
            @for line in self.remarks() {
                // In the text, the names of lines are a column.
                @let (name, rest) = line.split_once("  ").unwrap_or(("", &line));
                p.soft { b { (name) } " " (rest.trim_start()) }
            }
            (html::table(&HEADS.map(|head| format!("#{head}")).each_ref().map(String::as_str), rows))
            @for of in &self.noise.cpus {
                h2 { "CPU " (of.cpu) }
                figure { (html::drawing(chart::svg(of, &errors, seconds, self.noise.threshold, longest))) }
            }
        };
        html::document(title, &body)
    }
}
