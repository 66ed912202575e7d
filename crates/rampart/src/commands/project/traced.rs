//! A program that was traced: simulated on its own ranks, beside what was measured, and on more of them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rampart_scale::LogGops;
use rampart_scale::detour::{CorrectedErrors, Undisturbed};
use rampart_scale::engine::simulate_until;
use rampart_scale::trace::file;
use serde_json::json;

use super::arguments::QuestionArguments;
use super::compared::Traced;
use super::schedule;
use super::show::ProjectionView;
use crate::error::Error;
use crate::inputs::files;
use crate::output::text::{self, count};
use crate::process::signals;

/// What is known of the trace in a file, of which so many runs at once will be made on so many nodes.
fn read(path: &Path, nodes: Option<u32>, network: &LogGops, runs: usize, stop: &AtomicBool) -> Result<Traced, Error> {
    const REMEDY: &str = "use a shorter one, or fewer nodes";
    let needed = |length| file::memory(length, nodes.unwrap_or(1), runs);
    let told = |why: String| Error::Schedule { path: path.to_owned(), why };
    let refused = |error: rampart_scale::Error| told(error.to_string());
    files::length(path).and_then(|length| files::check_memory(needed(length), REMEDY)).map_err(told)?;
    if !file::is_begun(&files::read_start(path, file::MAGIC.len()).map_err(told)?) {
        return Err(refused(rampart_scale::Error::NoTrace { at: 0 }));
    }
    let bytes = schedule::read(path, needed, REMEDY)?;
    let recorded = file::read(&bytes, network).map_err(refused)?;
    let memory = file::memory(bytes.len() as u64, nodes.unwrap_or(recorded.trace.ranks()), runs);
    drop(bytes);
    let ranks = recorded.trace.ranks();
    schedule::fits(path, file::memory_of_runs(nodes.unwrap_or(ranks).max(ranks), runs), REMEDY)?;
    let same_size = simulate_until(&recorded.trace.extrapolated(1)?, network, &Undisturbed, stop)?.makespan();
    Ok(Traced { recorded, same_size, memory })
}

/// What errors cost the traced program.
pub fn ask(
    question: &QuestionArguments,
    path: &Path,
    errors: CorrectedErrors,
    network: &LogGops,
) -> Result<ProjectionView, Error> {
    let stop = signals::stop_flag()?;
    let traced = read(path, question.nodes, network, schedule::at_once(question), &stop)?;
    let extrapolated = traced.recorded.trace.extrapolated(traced.factor(question.nodes)?)?;
    let answer = schedule::ask(question, path, &extrapolated, errors, network, (&*stop, traced.memory))?;
    Ok(ProjectionView { traced: Some(traced), ..answer })
}

/// How long the traced program takes without errors: shown.
pub fn undisturbed(question: &QuestionArguments, path: &Path, network: &LogGops) -> Result<(), Error> {
    let stop = signals::stop_flag()?;
    let traced = read(path, question.nodes, network, 1, &stop)?;
    let schedule = traced.recorded.trace.extrapolated(traced.factor(question.nodes)?)?;
    let run = simulate_until(&schedule, network, &Undisturbed, &stop)?;
    let (nodes, takes) = (question.nodes.unwrap_or(traced.recorded.trace.ranks()), run.makespan());
    if question.json {
        return text::print_json(&json!({
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
    let answer = format!("answer      {takes} without errors; name them by --mtbce\n");
    text::print(&format!("program     {program} on {nodes} nodes, {}\n{}{answer}", question.network, traced.text()))
}
