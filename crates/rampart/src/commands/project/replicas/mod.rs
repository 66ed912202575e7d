//! `rampart project --replicas`: how long a job takes on nodes that fail, with 1, 2 and 3 replicas of each rank; and
//! `rampart project sweep --figure 3.1`, which repeats [Fiala15, fig. 3.1].

pub mod arguments;
mod chart;
mod curve;
pub mod figure;
mod view;

use std::fs;
use std::path::PathBuf;

use rampart_scale::ParallelRuns;
use rampart_scale::replicas::{Degree, ReplicaComparison};

use self::arguments::ReplicaArguments;
use self::curve::ReplicaCurve;
use self::view::ReplicaView;
use super::arguments::QuestionArguments;
use super::capacity::threads;
use crate::error::Error;
use crate::output::text;
use crate::process::signals;

/// Compares 1 to `most` replicas.
pub fn run(question: &QuestionArguments, arguments: &ReplicaArguments, most: Degree) -> Result<(), Error> {
    let comparison = ReplicaComparison::new(arguments.job(question.nodes), most)?;
    let simulated = if arguments.simulate { simulate(question, &comparison)? } else { Vec::new() };
    let view = ReplicaView { comparison, simulated };
    if question.json {
        text::print_json(&view.document())?;
    } else {
        text::print(&view.text())?;
    }
    let curve = || ReplicaCurve::around(view.comparison.job, most);
    write(arguments.csv.as_ref(), || curve().csv())?;
    write(arguments.html.as_ref(), || view.page(&curve()))
}

/// The simulated means, for each number of replicas.
fn simulate(question: &QuestionArguments, comparison: &ReplicaComparison) -> Result<Vec<view::Simulated>, Error> {
    let stop = signals::stop_flag()?;
    let parallel = ParallelRuns { threads: threads(), stop: &stop, done: &|_| {} };
    let of = |(degree, plan): &(Degree, Option<_>)| {
        let simulate = |plan| comparison.job.simulated_mean(plan, question.seeds, question.seed, &parallel);
        Ok((*degree, plan.as_ref().map(simulate).transpose()?.flatten()))
    };
    comparison.completions.iter().map(of).collect()
}

/// Writes a file, if one was asked for.
pub fn write(path: Option<&PathBuf>, content: impl FnOnce() -> String) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, content()).map_err(|cause| Error::Plot { path: path.clone(), cause })
}
