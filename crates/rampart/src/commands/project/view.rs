//! A projection as text and as JSON.

use std::fmt::Write as _;

use rampart_scale::Reporting;
use rampart_scale::detour::{CorrectedErrors, ErrorCost, Nodes, Overlap};
use rampart_scale::project::advice::{DimmAdvice, Logging};
use rampart_scale::project::{Bearable, Projection};
use rampart_scale::time::Time;
use serde_json::{Value, json};

use super::comparison::TraceComparison;
use crate::inputs::dimm::DimmHistory;
use crate::output::text::{count, duration, percent};

/// The least bound that is shown as a number.
const LEAST: f64 = 0.000_01;

/// The answer to one question.
pub struct ProjectionView {
    /// The program, by name.
    pub program: String,
    /// `trace` or `skeleton`; `None` if it is neither of a workload.
    pub kind: Option<&'static str>,
    /// The number of nodes.
    pub nodes: u32,
    /// The network, by name.
    pub network: String,
    /// The time of one cycle without errors; a GOAL schedule has no cycles.
    pub cycle: Option<Time>,
    /// The errors.
    pub errors: CorrectedErrors,
    /// How errors are reported.
    pub reporting: Reporting,
    /// The projected slowdown.
    pub projection: Projection,
    /// The slowdown if firmware logs errors, and if the kernel does.
    pub paths: Option<(f64, f64)>,
    /// The most frequent errors that the program bears.
    pub bearable: Option<Bearable>,
    /// The DIMM with these errors, and its history.
    pub dimm: Option<(String, DimmHistory)>,
    /// The traced program.
    pub traced: Option<TraceComparison>,
}

fn cost(cost: &ErrorCost) -> String {
    match cost {
        ErrorCost::Fixed(time) => format!("{time} each"),
        ErrorCost::EveryNth { each, nth, logged } => format!("{each} each, {logged} each {nth}th"),
        ErrorCost::Recorded(times) => format!("one of {} recorded times each", times.len()),
    }
}

fn bearable(bearable: Bearable) -> String {
    match bearable {
        Bearable::From(mean) => format!("one every {mean} on a node, and no more frequent, costs at most 10 %"),
        Bearable::Below(mean) => {
            format!("one every {mean} on a node costs less than 10 %; more frequent errors cannot be simulated")
        }
        Bearable::None => {
            "none: one in 213 days on a node, the rarest that can be simulated, costs more than 10 %".to_owned()
        }
    }
}

impl ProjectionView {
    /// The advice, as text.
    fn advice(&self) -> String {
        let projection = &self.projection;
        if let Some((label, history)) = &self.dimm {
            let seen =
                format!("{} corrected errors in {:.1} days", count(history.corrected), history.seconds / 86_400.0);
            return match DimmAdvice::of(projection.cost(), projection.uncertainty()) {
                DimmAdvice::Leave => format!("leave {label}: {seen} cost this program at most 10 %"),
                DimmAdvice::Replace => format!("replace {label}: {seen} cost this program more than 10 %"),
                DimmAdvice::Unclear => {
                    format!("{label} is near the limit of 10 % with {seen}: ask again with more --seeds")
                }
            };
        }
        match self.paths.map(|(firmware, software)| (Logging::of(firmware, software), firmware, software)) {
            None => {
                let slowdown = self.bound().unwrap_or_else(|| percent(projection.cost()));
                format!("errors slow the program by {slowdown}")
            }
            Some((Logging::Firmware, firmware, _)) => {
                format!("firmware may log corrected errors: a slowdown of {}", percent(firmware))
            }
            Some((Logging::Kernel, firmware, software)) => format!(
                "let the kernel log corrected errors, not the firmware: a slowdown of {} instead of {}",
                percent(software),
                percent(firmware)
            ),
            Some((Logging::Nobody, firmware, software)) => format!(
                "use memory with fewer errors: the slowdown is {} if the kernel logs them, {} if firmware does",
                percent(software),
                percent(firmware)
            ),
        }
    }

    /// What the slowdown is below, where no run shows any.
    fn bound(&self) -> Option<String> {
        let is_shown = [self.projection.cost(), self.projection.uncertainty()].map(|share| percent(share) != "0 %");
        let most = self.projection.at_most(&self.errors);
        let bound = if most < LEAST { "less than 0.001 %".to_owned() } else { format!("at most {}", percent(most)) };
        (is_shown == [false; 2]).then_some(bound)
    }

    fn slowdown(&self) -> String {
        match self.bound() {
            Some(bound) => format!("{bound}, as if each error delayed all ranks; no run shows any"),
            None => format!("{} ± {} (95 %)", percent(self.projection.cost()), percent(self.projection.uncertainty())),
        }
    }

    /// The answer for people.
    pub fn text(&self) -> String {
        let (errors, projection) = (&self.errors, &self.projection);
        let mut text = String::new();
        let cycle = self.cycle.map(|cycle| format!(", a cycle of {cycle}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "program     {}{} on {} nodes, {}{cycle}",
            self.program,
            self.kind.map(|kind| format!(" ({kind})")).unwrap_or_default(),
            count(self.nodes.into()),
            self.network
        );
        if let Some(traced) = &self.traced {
            text.push_str(&traced.text());
        }
        let place = match errors.nodes {
            Nodes::All => "each node".to_owned(),
            Nodes::One(rank) => format!("node {} only", rank.0),
        };
        let overlap =
            if errors.overlap == Overlap::Queued { "waiting for each other" } else { "dropped during another" };
        let _ = writeln!(text, "errors      one every {} on {place}, {}, {overlap}", errors.mean, cost(&errors.cost));
        if let Some((label, history)) = &self.dimm {
            if history.is_rare() {
                let _ = writeln!(text, "            they are too rare to be simulated: they cost less than this");
            }
            let high = history.mtbce_interval.1.map_or_else(|| "any".to_owned(), duration);
            let low = duration(history.mtbce_interval.0);
            let _ = writeln!(
                text,
                "            of {label}: {} in {:.1} days, so one every {low} to {high} (95 %)",
                count(history.corrected),
                history.seconds / 86_400.0
            );
        }
        let runs = projection.slowdown.disturbed.len();
        let _ = writeln!(
            text,
            "runs        {runs} of {}, {:.1} errors expected in each",
            projection.slowdown.undisturbed, projection.expected
        );
        if projection.is_vague() {
            text.push_str(
                "            too few errors for the interval to mean much: errors this rare cost next to nothing\n",
            );
        }
        let _ = writeln!(text, "slowdown    {}", self.slowdown());
        if let Some((firmware, software)) = self.paths {
            let _ = writeln!(text, "by path     firmware {}, software {}", percent(firmware), percent(software));
        }
        if let Some(found) = self.bearable {
            let _ = writeln!(text, "bearable    {}", bearable(found));
        }
        let _ = writeln!(text, "answer      {}", self.advice());
        text
    }

    /// The answer as JSON, for programs.
    pub fn document(&self) -> Value {
        let (errors, projection) = (&self.errors, &self.projection);
        let found = self.bearable.map(|found| match found {
            Bearable::From(mean) => json!({ "mtbce_seconds": mean.as_secs_f64(), "exact": true }),
            Bearable::Below(mean) => json!({ "mtbce_seconds": mean.as_secs_f64(), "exact": false }),
            Bearable::None => json!({ "mtbce_seconds": null, "exact": false }),
        });
        json!({
            "schema": "rampart.project/1",
            "program": self.program,
            "kind": self.kind,
            "nodes": self.nodes,
            "network": self.network,
            "cycle_seconds": self.cycle.map(Time::as_secs_f64),
            "mtbce_seconds": errors.mean.as_secs_f64(),
            "nodes_with_errors": if errors.nodes == Nodes::All { "all" } else { "one" },
            "reporting": self.reporting.name(),
            "cost": cost(&errors.cost),
            "overlap": if errors.overlap == Overlap::Queued { "queued" } else { "dropped" },
            "seed": errors.seed,
            "seconds": projection.slowdown.undisturbed.as_secs_f64(),
            "seconds_with_errors": projection.slowdown.disturbed.iter().map(|time| time.as_secs_f64()).collect::<Vec<_>>(),
            "errors_expected": projection.expected,
            "vague": projection.is_vague(),
            "slowdown": projection.cost(),
            "slowdown_at_most": Some(projection.at_most(errors)).filter(|most| most.is_finite()),
            "slowdown_uncertainty": Some(projection.uncertainty()).filter(|half| half.is_finite()),
            "by_firmware": self.paths.map(|(firmware, _)| firmware),
            "by_software": self.paths.map(|(_, software)| software),
            "bearable": found,
            "dimm": self.dimm.as_ref().map(|(label, history)| json!({ "label": label, "history": history })),
            "traced": self.traced.as_ref().map(TraceComparison::document),
            "answer": self.advice(),
        })
    }
}
