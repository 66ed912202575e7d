//! `rampart watch`: tests free memory continuously, as a daemon.

pub mod arguments;
mod config;
mod exposition;
mod metrics;
mod observer;
mod pool_metrics;
mod process_metrics;

use std::path::PathBuf;

use rampart_diagnostic::daemon::{self as diagnostic, DaemonSettings, WatchRequest};

use self::arguments::WatchArguments;
use self::observer::WatchObserver;
use crate::error::Error;
use crate::inputs::daemon::{self, DaemonLiveness, StateFile};
use crate::inputs::pools::machine_beside_pools;
use crate::inputs::store;
use crate::output::verbosity::Verbosity;
use crate::output::{colour, daemon as daemon_text, text};
use crate::process::signals::{reload_flag, stop_flag};

/// Watches until it is stopped. Returns 0 if no bad frame was found, 1 if one was, 2 if the tests were incomplete.
pub fn run(arguments: &WatchArguments, path: Option<PathBuf>, verbosity: Verbosity) -> Result<u8, Error> {
    let machine = machine_beside_pools();
    let cpus = u32::try_from(machine.cpus().len()).unwrap_or(u32::MAX);
    let configuration = config::configuration(arguments, cpus)?;
    let store = store::open(path, machine.clock.now())?;
    let state_path = daemon::path(store.path());
    if let DaemonLiveness::Running(other) = daemon::beside(store.path()) {
        return Err(Error::Watched(other.pid));
    }
    let state_file = StateFile::create(&state_path).map_err(|error| Error::State(state_path, error))?;
    let (stop, reload) = (stop_flag()?, reload_flag()?);
    let observer = WatchObserver::new(arguments, verbosity, cpus, reload, state_file, &configuration)?;
    let summary = diagnostic::run(&request(arguments, configuration.settings), &machine, store, &stop, &observer);
    observer.end();
    drop(observer);
    let summary = summary?;
    if arguments.json {
        text::print_json(&summary)?;
    } else {
        text::print(&colour::verdicts(&daemon_text::summary(&summary, verbosity)))?;
    }
    Ok(summary.verdict.exit_code())
}

fn request(arguments: &WatchArguments, settings: DaemonSettings) -> WatchRequest {
    WatchRequest {
        source: arguments.source.into(),
        march: arguments.march.test.clone(),
        sequences: arguments.sequence.list(),
        delay: arguments.delay,
        retention: arguments.retention,
        engine: arguments.instructions,
        method: arguments.method.map(Into::into),
        settings,
        duration: arguments.duration,
        inject: arguments.inject.clone(),
        seed: arguments.seed,
        errors: arguments.errors_file.clone(),
        node: rampart_linux::host_name(),
    }
}
