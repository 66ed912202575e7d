//! Simulates a traced program: on its own ranks, to compare the time with the measured one, and on more ranks.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rampart_scale::LogGops;
use rampart_scale::detour::{CorrectedErrors, Undisturbed};
use rampart_scale::engine::simulate_until;
use rampart_scale::trace::file;
use serde_json::json;

use super::arguments::QuestionArguments;
use super::comparison::TraceComparison;
use super::schedule;
use super::view::ProjectionView;
use crate::error::Error;
use crate::inputs::files;
use crate::output::text::{self, count};
use crate::process::signals;

/// Reads a trace and simulates it without errors, if there is memory for `runs` runs at once on so many nodes.
fn read(
    path: &Path,
    nodes: Option<u32>,
    network: &LogGops,
    runs: usize,
    stop: &AtomicBool,
) -> Result<TraceComparison, Error> {
    const REMEDY: &str = "use a shorter one, or fewer nodes";
    let needed = |length| file::memory(length, nodes.unwrap_or(1), runs);
    let unreadable = |why: String| Error::Schedule { path: path.to_owned(), why };
    let refused = |error: rampart_scale::Error| unreadable(error.to_string());
    files::length(path).and_then(|length| files::check_memory(needed(length), REMEDY)).map_err(unreadable)?;
    if !file::is_begun(&files::read_start(path, file::MAGIC.len()).map_err(unreadable)?) {
        return Err(refused(rampart_scale::Error::NoTrace { at: 0 }));
    }
    let bytes = schedule::read(path, needed, REMEDY)?;
    let recorded = file::read(&bytes, network).map_err(refused)?;
    let memory = file::memory(bytes.len() as u64, nodes.unwrap_or(recorded.trace.ranks()), runs);
    drop(bytes);
    let ranks = recorded.trace.ranks();
    schedule::check_memory(path, file::memory_of_runs(nodes.unwrap_or(ranks).max(ranks), runs), REMEDY)?;
    let simulated = simulate_until(&recorded.trace.extrapolated(1)?, network, &Undisturbed, stop)?.makespan();
    Ok(TraceComparison { recorded, simulated, memory })
}

/// Projects the cost of errors for a traced program.
pub fn ask(
    question: &QuestionArguments,
    path: &Path,
    errors: CorrectedErrors,
    network: &LogGops,
) -> Result<ProjectionView, Error> {
    let stop = signals::stop_flag()?;
    let wanted = question.wanted_nodes()?;
    let traced = read(path, wanted, network, schedule::at_once(question), &stop)?;
    // A system has the nodes that it has: the program takes as many as it can.
    let of_system = wanted.map(|nodes| whole_copies(nodes, traced.recorded.trace.ranks()));
    let extrapolated = traced.recorded.trace.extrapolated(traced.factor(question.nodes.or(of_system))?)?;
    let answer = schedule::ask(question, path, &extrapolated, errors, network, (&*stop, traced.memory))?;
    Ok(ProjectionView { traced: Some(traced), ..answer })
}

/// The most nodes that are a multiple of a program's ranks; those of one copy, if there are fewer.
const fn whole_copies(nodes: u32, ranks: u32) -> u32 {
    if nodes < ranks { ranks } else { nodes - nodes % ranks }
}

/// Shows the time of the traced program without errors.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_runs_whole_copies_of_a_program() {
        assert_eq!([8, 27, 16_384, 20_000].map(|ranks| whole_copies(16_384, ranks)), [16_384, 16_362, 16_384, 20_000]);
    }
}
