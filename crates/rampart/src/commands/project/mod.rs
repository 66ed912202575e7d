//! `rampart project`: projects the cost of memory errors for a program on many nodes, and that of failing nodes.

pub mod arguments;
mod bars;
mod calibrate;
mod capacity;
mod chart;
mod comparison;
mod list;
pub mod replicas;
mod schedule;
mod sweep;
mod traced;
mod view;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rampart_linux::{MemoryState, Roots, own_memory};
use rampart_memory::Bytes;
use rampart_scale::detour::{CorrectedErrors, ErrorCost, Nodes};
use rampart_scale::noise::{DetourSummary, Noise};
use rampart_scale::project::{PreparedProgram, Projection, bearable};
use rampart_scale::time::Time;
use rampart_scale::{KnownProgram, LogGops, ParallelRuns, Reporting};

use self::arguments::{ProjectArguments, ProjectCommand, QuestionArguments};
use self::capacity::{prepared, threads};
use self::view::ProjectionView;
use crate::error::Error;
use crate::inputs::files;
use crate::inputs::{dimm, network};
use crate::output::progress::StepProgress;
use crate::output::{colour, text};
use crate::parsing::RAREST_SECONDS;
use crate::process::signals;

/// The usual number of guesses in the search for bearable errors; for the progress line only.
const GUESSES: u64 = 8;

/// The number of runs of each guess, and of errors in them.
const SEARCH: (u64, u64) = (2, 16);

/// Answers one question, or draws a figure.
pub fn run(arguments: &ProjectArguments) -> Result<u8, Error> {
    match &arguments.command {
        Some(ProjectCommand::Sweep(arguments)) => sweep::run(arguments)?,
        Some(ProjectCommand::Calibrate(arguments)) => calibrate::run(arguments)?,
        None if arguments.question.list => list::show(arguments.question.json)?,
        None if let Some(most) = arguments.replicas.most() => {
            replicas::run(&arguments.question, &arguments.replicas, most)?;
        }
        None => ask(&arguments.question)?,
    }
    Ok(0)
}

fn ask(question: &QuestionArguments) -> Result<(), Error> {
    // An estimate may be wrong, or a file may be crafted to make it wrong: then only this process ends, and no other
    // one.
    own_memory::limit(MemoryState::read(&Roots::default())?.available())?;
    let history = match (&question.from_errors, &question.dimm) {
        (Some(path), Some(label)) => Some((label.clone(), dimm::history(path, label)?)),
        _ => None,
    };
    let of_dimm = history.as_ref().and_then(|(_, history)| history.mtbce_seconds);
    let observed = match &question.detours {
        Some(path) => recorded(path).map(|(mean, cost)| Some((mean, Some(cost))))?,
        // Errors too rare to be simulated are replaced by the rarest possible, which cost more: the answer says so.
        None => of_dimm.map(|seconds| (Time::from_secs_f64(seconds.min(RAREST_SECONDS)), None)),
    };
    let network = network::named(&question.network)?;
    let (nodes, errors) = match (question.errors(observed), &question.trace) {
        (Err(Error::NoErrorsNamed), Some(path)) => return traced::undisturbed(question, path, &network),
        (errors, _) => errors?,
    };
    let mut answer = match (&question.goal, &question.trace) {
        (Some(path), _) => schedule::of_goal(question, path, errors, &network)?,
        (None, Some(path)) => traced::ask(question, path, errors, &network)?,
        (None, None) => of_workload(question, nodes, errors, &network)?,
    };
    answer.dimm = history;
    if question.json { text::print_json(&answer.document()) } else { text::print(&answer.text()) }
}

/// Reads recorded detours: their mean distance, and their lengths as the cost of an error.
fn recorded(path: &Path) -> Result<(Time, ErrorCost), Error> {
    let refused = |why: String| Error::Record { path: path.to_owned(), why };
    let length = files::length(path).map_err(refused)?;
    files::check_memory(rampart_scale::memory::of_noise_file(length), "record for a shorter time").map_err(refused)?;
    let text = files::read_text(path, Bytes::new(length)).map_err(refused)?;
    let noise = Noise::read_csv(&text).map_err(|error| refused(error.to_string()))?;
    let errors = noise.as_errors().map_err(|error| refused(error.to_string()))?;
    if let Some(doubt) = doubt(DetourSummary::of(&noise.cpus).share) {
        eprintln!("{}", colour::warning(&doubt));
    }
    Ok(errors)
}

/// A warning about detours that took this share of the time. An idle node loses some thousandths of its time to them.
fn doubt(share: f64) -> Option<String> {
    let other_programs = share > 0.1;
    other_programs.then(|| {
        format!(
            "the recorded detours took {:.0} % of the time, so other programs used the CPUs meanwhile; what this costs \
             on all nodes follows. To leave it out, record on idle CPUs",
            100.0 * share
        )
    })
}

fn of_workload(
    question: &QuestionArguments,
    nodes: u32,
    errors: CorrectedErrors,
    network: &LogGops,
) -> Result<ProjectionView, Error> {
    let program = KnownProgram::named(&question.workload)?;
    let stop = signals::stop_flag()?;
    let (prepared, memory) = prepared(&program, question.extrapolated, nodes, network)?;
    let (steps, done) = (StepProgress::with_memory(memory), AtomicU64::new(0));
    let all = question.seeds * 2 + SEARCH.0 * GUESSES;
    let report = |runs| {
        let done = done.fetch_add(runs, Ordering::Relaxed) + runs;
        steps.set(usize::try_from(done.min(all)).unwrap_or(0), usize::try_from(all).unwrap_or(0));
    };
    let parallel = ParallelRuns { threads: threads(), stop: &stop, done: &report };
    let errors_per_run = rampart_scale::project::ERRORS_A_RUN;
    let projection = prepared.ask(&errors, question.seeds, errors_per_run, &parallel)?;
    let reporting = Reporting::from(question.reporting);
    let paths = by_path(&prepared, &errors, reporting, &projection, question, &parallel)?;
    let bearable = match errors.nodes {
        Nodes::All => Some(bearable(&prepared, &errors, SEARCH.0, SEARCH.1, &parallel)?),
        Nodes::One(_) => None,
    };
    steps.end();
    Ok(ProjectionView {
        program: program.name(),
        kind: Some(program.kind()),
        nodes: prepared.nodes(),
        network: question.network.clone(),
        cycle: Some(prepared.cycle()),
        errors,
        reporting,
        projection,
        paths,
        bearable,
        dimm: None,
        traced: None,
    })
}

/// The cost of errors that firmware logs, and of errors that the kernel logs; `None` if the question gives a cost of
/// its own.
fn by_path(
    prepared: &PreparedProgram,
    errors: &CorrectedErrors,
    reporting: Reporting,
    projection: &Projection,
    question: &QuestionArguments,
    parallel: &ParallelRuns,
) -> Result<Option<(f64, f64)>, Error> {
    let own_cost = question.cost.is_some() || question.two_level || question.detours.is_some();
    if own_cost || question.from_errors.is_some() {
        return Ok(None);
    }
    let cost = |path: Reporting| -> Result<f64, Error> {
        if path == reporting {
            return Ok(projection.cost());
        }
        let errors = CorrectedErrors { cost: path.cost(), ..errors.clone() };
        match prepared.ask(&errors, question.seeds, rampart_scale::project::ERRORS_A_RUN, parallel) {
            Ok(projection) => Ok(projection.cost()),
            // Such errors leave the program little or no time.
            Err(rampart_scale::Error::NoTimeLeft { .. } | rampart_scale::Error::TooLong) => Ok(f64::INFINITY),
            Err(error) => Err(error.into()),
        }
    };
    Ok(Some((cost(Reporting::Firmware)?, cost(Reporting::Software)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_that_other_programs_cause_are_doubted() {
        assert_eq!(doubt(0.002), None);
        assert_eq!(doubt(0.1), None);
        assert!(doubt(0.63).is_some_and(|doubt| doubt.contains("63 % of the time")));
    }
}
