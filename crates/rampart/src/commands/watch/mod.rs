//! `rampart watch`: the daemon.

pub mod arguments;
mod config;
mod metrics;
mod observer;

use std::path::PathBuf;

use rampart_diagnostic::Machine;
use rampart_diagnostic::daemon::{self as diagnostic, DaemonSettings, WatchRequest};

use self::arguments::WatchArguments;
use self::metrics::Metrics;
use self::observer::Face;
use crate::error::Error;
use crate::inputs::daemon::{self, DaemonLiveness, StateFile};
use crate::inputs::store;
use crate::output::{daemon as daemon_text, text};
use crate::process::signals::{reload_flag, stop_flag};

/// Watches until it is stopped; 0 if nothing was found, 1 if bad frames were, 2 if nothing can be said.
pub fn run(arguments: &WatchArguments, path: Option<PathBuf>) -> Result<u8, Error> {
    let machine = Machine::this();
    let cpus = u32::try_from(machine.cpus().len()).unwrap_or(u32::MAX);
    let knobs = config::knobs(arguments, cpus)?;
    let store = store::open(path, machine.clock.now())?;
    let place = daemon::path(store.path());
    if let DaemonLiveness::Running(other) = daemon::beside(store.path()) {
        return Err(Error::Watched(other.pid));
    }
    let live = StateFile::create(&place).map_err(|error| Error::State(place, error))?;
    let metrics = match arguments.metrics {
        Some(address) => Some(Metrics::serve(address).map_err(|error| Error::Metrics(address, error))?),
        None => None,
    };
    let (stop, reload) = (stop_flag()?, reload_flag()?);
    let face = Face::new(arguments, cpus, reload, live, metrics)
        .map_err(|error| Error::Events(arguments.events.clone().unwrap_or_default(), error))?;
    let summary = diagnostic::run(&request(arguments, knobs), &machine, store, &stop, &face);
    face.end();
    drop(face);
    let summary = summary?;
    if arguments.json {
        text::print_json(&summary)?;
    } else {
        text::print(&daemon_text::summary(&summary))?;
    }
    Ok(summary.verdict.exit_code())
}

fn request(arguments: &WatchArguments, knobs: DaemonSettings) -> WatchRequest {
    WatchRequest {
        march: arguments.march.test.clone(),
        orders: arguments.order.list(),
        delay: arguments.delay,
        retention: arguments.retention,
        method: arguments.method.map(Into::into),
        knobs,
        duration: arguments.duration,
        inject: arguments.inject.clone(),
        seed: arguments.seed,
        errors: arguments.errors_file.clone(),
    }
}
