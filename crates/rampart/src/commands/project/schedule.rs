//! Projections for schedules: from GOAL files, or traced.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rampart_memory::Bytes;
use rampart_scale::detour::{CorrectedErrors, Nodes};
use rampart_scale::goal;
use rampart_scale::operation::Rank;
use rampart_scale::project::Projection;
use rampart_scale::trace::file::memory_of_runs;
use rampart_scale::{LogGops, ParallelRuns, Schedule, memory, slowdown};

use super::arguments::QuestionArguments;
use super::capacity::threads;
use super::view::ProjectionView;
use crate::error::Error;
use crate::inputs::files;
use crate::output::progress::StepProgress;
use crate::process::signals;

/// Reads a file, if there is memory for its content. `needed` returns the memory for a file of so many bytes; `remedy`
/// says what to do if there is too little.
pub fn read(path: &Path, needed: impl FnOnce(u64) -> Bytes, remedy: &str) -> Result<Vec<u8>, Error> {
    let refused = |why: String| Error::Schedule { path: path.to_owned(), why };
    let length = files::length(path).map_err(refused)?;
    files::check_memory(needed(length), remedy).map_err(refused)?;
    files::read(path, Bytes::new(length)).map_err(refused)
}

/// Refuses a program that needs more memory than is free, before it runs.
pub fn check_memory(path: &Path, needed: Bytes, remedy: &str) -> Result<(), Error> {
    files::check_memory(needed, remedy).map_err(|why| Error::Schedule { path: path.to_owned(), why })
}

/// The number of simultaneous runs.
pub fn at_once(question: &QuestionArguments) -> usize {
    threads().min(usize::try_from(question.seeds).unwrap_or(usize::MAX))
}

/// Projects the cost of errors for the program of a GOAL file.
pub fn of_goal(
    question: &QuestionArguments,
    path: &Path,
    errors: CorrectedErrors,
    network: &LogGops,
) -> Result<ProjectionView, Error> {
    let refused = |why: String| Error::Schedule { path: path.to_owned(), why };
    let length = files::length(path).map_err(refused)?;
    check_memory(path, memory::of_goal_file(length), "use a shorter one")?;
    let file = files::open(path, Bytes::new(length)).map_err(refused)?;
    let goal = goal::read_from(file).map_err(|error| refused(error.to_string()))?;
    let runs = memory_of_runs(goal.ranks(), at_once(question));
    check_memory(path, runs, "use fewer ranks")?;
    let memory = Bytes::new(memory::of_goal_file(length).get().saturating_add(runs.get()));
    ask(question, path, &goal, errors, network, (&*signals::stop_flag()?, memory))
}

/// Projects the cost of errors for a schedule. `memory`: the most memory that the simulation takes.
pub fn ask<S: Schedule + Sync>(
    question: &QuestionArguments,
    path: &Path,
    schedule: &S,
    mut errors: CorrectedErrors,
    network: &LogGops,
    (stop, memory): (&AtomicBool, Bytes),
) -> Result<ProjectionView, Error> {
    let nodes = schedule.ranks();
    if let Nodes::One(rank) = &mut errors.nodes {
        *rank = Rank(nodes / 2);
    }
    let (steps, done) = (StepProgress::with_memory(memory), AtomicU64::new(0));
    // One run is without errors.
    let all = usize::try_from(question.seeds + 1).unwrap_or(usize::MAX);
    steps.set(0, all);
    let report = |runs| {
        let done = done.fetch_add(runs, Ordering::Relaxed) + runs;
        steps.set(usize::try_from(done).unwrap_or(all), all);
    };
    let parallel = ParallelRuns { threads: threads(), stop, done: &report };
    let slowdown = slowdown(schedule, network, &errors, question.seeds, &parallel)?;
    steps.end();
    let with_errors = if errors.nodes == Nodes::All { f64::from(nodes) } else { 1.0 };
    let expected = slowdown.undisturbed.as_secs_f64() * with_errors / errors.mean.as_secs_f64();
    Ok(ProjectionView {
        program: path.display().to_string(),
        kind: None,
        nodes,
        network: question.network.clone(),
        cycle: None,
        errors,
        reporting: question.reporting.into(),
        projection: Projection { slowdown, cycles: 1, expected },
        paths: None,
        bearable: None,
        dimm: None,
        traced: None,
    })
}
