//! A program as a schedule: of a GOAL file, or as it was traced.

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
use super::program::threads;
use super::show::ProjectionView;
use crate::error::Error;
use crate::inputs::files;
use crate::output::progress::StepProgress;
use crate::process::signals;

/// What a file holds, if there is memory for it: `needed` for so many bytes. Else `remedy` is told.
pub fn read(path: &Path, needed: impl FnOnce(u64) -> Bytes, remedy: &str) -> Result<Vec<u8>, Error> {
    let refused = |why: String| Error::Schedule { path: path.to_owned(), why };
    let length = files::length(path).map_err(refused)?;
    files::check_memory(needed(length), remedy).map_err(refused)?;
    files::read(path, Bytes::new(length)).map_err(refused)
}

/// Refuses a program that takes more memory than there is, before it is run.
pub fn fits(path: &Path, needed: Bytes, remedy: &str) -> Result<(), Error> {
    files::check_memory(needed, remedy).map_err(|why| Error::Schedule { path: path.to_owned(), why })
}

/// Runs that are made at once.
pub fn at_once(question: &QuestionArguments) -> usize {
    threads().min(usize::try_from(question.seeds).unwrap_or(usize::MAX))
}

/// What errors cost the program of a GOAL schedule.
pub fn of_goal(
    question: &QuestionArguments,
    path: &Path,
    errors: CorrectedErrors,
    network: &LogGops,
) -> Result<ProjectionView, Error> {
    let bytes = read(path, memory::of_goal_file, "use a shorter one")?;
    let length = bytes.len() as u64;
    let goal = goal::read(&bytes).map_err(|error| Error::Schedule { path: path.to_owned(), why: error.to_string() })?;
    drop(bytes);
    let runs = memory_of_runs(goal.ranks(), at_once(question));
    fits(path, runs, "use fewer ranks")?;
    let memory = Bytes::new(memory::of_goal_file(length).get().saturating_add(runs.get()));
    ask(question, path, &goal, errors, network, (&*signals::stop_flag()?, memory))
}

/// What errors cost a program, that takes so much memory at most.
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
    // One is without errors.
    let all = usize::try_from(question.seeds + 1).unwrap_or(usize::MAX);
    steps.set(0, all);
    let told = |runs| {
        let done = done.fetch_add(runs, Ordering::Relaxed) + runs;
        steps.set(usize::try_from(done).unwrap_or(all), all);
    };
    let workshop = ParallelRuns { threads: threads(), stop, done: &told };
    let slowdown = slowdown(schedule, network, &errors, question.seeds, &workshop)?;
    steps.end();
    let with_errors = if errors.nodes == Nodes::All { f64::from(nodes) } else { 1.0 };
    let expected = slowdown.undisturbed.as_secs_f64() * with_errors / errors.mean.as_secs_f64();
    Ok(ProjectionView {
        program: path.display().to_string(),
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
