//! `rampart simulate`: repeats an experiment of \[Rahman16\] on the simulated machine.

pub mod arguments;
mod plot;

use std::fmt::Write as _;
use std::fs;

use rampart_studies::{Effort, Experiment};

use self::arguments::SimulateArguments;
use crate::error::Error;
use crate::output::progress::StepProgress;
use crate::output::text;

/// Lists the experiments, or runs one.
pub fn run(arguments: &SimulateArguments) -> Result<u8, Error> {
    let Some(name) = arguments.name.as_deref().filter(|_| !arguments.list) else {
        list(arguments.json)?;
        return Ok(0);
    };
    let experiment = rampart_studies::find(name).ok_or_else(|| Error::NoSuchExperiment(name.to_owned()))?;
    let effort = Effort { seed: arguments.seed, seeds: arguments.seeds, longest: arguments.longest };
    let steps = StepProgress::new();
    let outcome = experiment.run(&effort, arguments.allocator.allocator(), &|done, all| steps.set(done, all));
    steps.end();
    // The figures are printed first, so that they are not lost if the drawing cannot be written.
    if arguments.json {
        text::print_json(&outcome)?;
    } else {
        text::print(&outcome.to_string())?;
    }
    if let Some(path) = &arguments.plot {
        fs::write(path, plot::svg(&outcome)).map_err(|cause| Error::Plot { path: path.clone(), cause })?;
    }
    Ok(0)
}

fn list(json: bool) -> Result<(), Error> {
    if json {
        return text::print_json(&rampart_studies::ALL);
    }
    let mut text = String::new();
    for Experiment { name, shows, source, .. } in &rampart_studies::ALL {
        let _ = writeln!(text, "{name:<12}{shows} ({source})");
    }
    text::print(&text)
}
