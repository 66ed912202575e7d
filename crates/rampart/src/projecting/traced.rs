//! A program that was traced: simulated on its own ranks, beside what was measured, and on more of them.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rampart_scale::detour::{CorrectedErrors, Undisturbed};
use rampart_scale::engine::simulate_until;
use rampart_scale::trace::file::{self, Recorded};
use rampart_scale::{LogGops, Time};
use serde_json::{Value, json};

use super::arguments::QuestionArguments;
use super::schedule;
use super::show::{Answer, percent};
use crate::error::Error;
use crate::show::{self, count};
use crate::signals;

/// What is known of a trace without errors.
pub struct Traced {
    recorded: Recorded,
    /// Its ranks, simulated.
    same_size: Time,
}

impl Traced {
    fn read(path: &Path, nodes: Option<u32>, network: &LogGops, stop: &AtomicBool) -> Result<Self, Error> {
        let needed = |length| file::memory(length, nodes.unwrap_or(1));
        let bytes = schedule::read(path, needed, "use a shorter one, or fewer nodes")?;
        let refused = |error: rampart_scale::Error| Error::Schedule { path: path.to_owned(), why: error.to_string() };
        let recorded = file::read(&bytes, network).map_err(refused)?;
        drop(bytes);
        let same_size = simulate_until(&recorded.trace.extrapolated(1)?, network, &Undisturbed, stop)?.makespan();
        Ok(Self { recorded, same_size })
    }

    /// How many times as many ranks that is, if it is a multiple of those that were recorded.
    fn factor(&self, nodes: Option<u32>) -> Result<u32, Error> {
        let ranks = self.recorded.trace.ranks();
        match nodes {
            None => Ok(1),
            Some(nodes) if nodes % ranks == 0 => Ok(nodes / ranks),
            Some(nodes) => Err(Error::NoMultiple {
                nodes,
                ranks,
                below: nodes / ranks * ranks,
                above: (nodes / ranks + 1) * ranks,
            }),
        }
    }

    /// How far the simulation is from what was measured; a run that was cut off has no end to measure.
    fn deviation(&self) -> Option<f64> {
        let measured = self.recorded.measured;
        let known = self.recorded.complete && measured > Time::ZERO;
        known.then(|| self.same_size.as_secs_f64() / measured.as_secs_f64() - 1.0)
    }

    /// For people: lines of the answer.
    pub fn text(&self) -> String {
        let recorded = &self.recorded;
        let ranks = count(recorded.trace.ranks().into());
        let mut text = match self.deviation() {
            Some(deviation) => format!(
                "traced      {ranks} ranks: measured {}, simulated {} ({}{})\n",
                recorded.measured,
                self.same_size,
                if deviation < 0.0 { "-" } else { "+" },
                percent(deviation.abs())
            ),
            None => format!("traced      {ranks} ranks of a run that was cut off: simulated {}\n", self.same_size),
        };
        if let Some((ranks, cpus)) = recorded.shared {
            let _ = writeln!(text, "            {ranks} ranks shared {cpus} CPUs: computing takes as much longer");
        }
        if !recorded.others.is_empty() {
            let _ = writeln!(text, "            taken for computing: {}", recorded.others.join(", "));
        }
        text
    }

    /// For programs.
    pub fn document(&self) -> Value {
        let recorded = &self.recorded;
        json!({
            "ranks": recorded.trace.ranks(),
            "records": recorded.records,
            "complete": recorded.complete,
            "measured_seconds": recorded.complete.then(|| recorded.measured.as_secs_f64()),
            "simulated_seconds": self.same_size.as_secs_f64(),
            "deviation": self.deviation(),
            "ranks_sharing_cpus": recorded.shared.map(|(ranks, cpus)| json!({ "ranks": ranks, "cpus": cpus })),
            "not_simulated": recorded.others,
        })
    }
}

/// What errors cost the traced program.
pub fn ask(
    question: &QuestionArguments,
    path: &Path,
    errors: CorrectedErrors,
    network: &LogGops,
) -> Result<Answer, Error> {
    let stop = signals::stop_flag()?;
    let traced = Traced::read(path, question.nodes, network, &stop)?;
    let extrapolated = traced.recorded.trace.extrapolated(traced.factor(question.nodes)?)?;
    let answer = schedule::ask(question, path, &extrapolated, errors, network, &stop)?;
    Ok(Answer { traced: Some(traced), ..answer })
}

/// How long the traced program takes without errors: shown.
pub fn undisturbed(question: &QuestionArguments, path: &Path, network: &LogGops) -> Result<(), Error> {
    let stop = signals::stop_flag()?;
    let traced = Traced::read(path, question.nodes, network, &stop)?;
    let schedule = traced.recorded.trace.extrapolated(traced.factor(question.nodes)?)?;
    let run = simulate_until(&schedule, network, &Undisturbed, &stop)?;
    let (nodes, takes) = (question.nodes.unwrap_or(traced.recorded.trace.ranks()), run.makespan());
    if question.json {
        return show::print_json(&json!({
            "schema": "rampart.project.trace/1",
            "program": path.display().to_string(),
            "nodes": nodes,
            "network": question.network,
            "seconds": takes.as_secs_f64(),
            "events": run.events,
            "traced": traced.document(),
        }));
    }
    let (program, nodes) = (path.display(), count(nodes.into()));
    let answer = format!("answer      {takes} without errors; name them by --system or --mtbce\n");
    show::print(&format!("program     {program} on {nodes} nodes, {}\n{}{answer}", question.network, traced.text()))
}
