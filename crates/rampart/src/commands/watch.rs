//! `rampart watch`: the daemon.

use std::path::PathBuf;

use rampart_diagnostic::Machine;
use rampart_diagnostic::watch::{self, Knobs, Request};

use crate::error::Error;
use crate::signals::{reload_flag, stop_flag};
use crate::watching::arguments::WatchArguments;
use crate::watching::live::{self, Live, LiveFile};
use crate::watching::metrics::Metrics;
use crate::watching::observer::Face;
use crate::watching::{config, show};
use crate::{show as view, store};

/// Watches until it is stopped; 0 if nothing was found, 1 if bad frames were, 2 if nothing can be said.
pub fn run(arguments: &WatchArguments, path: Option<PathBuf>) -> Result<u8, Error> {
    let machine = Machine::this();
    let cpus = u32::try_from(machine.cpus().len()).unwrap_or(u32::MAX);
    let knobs = config::knobs(arguments, cpus)?;
    let store = store::open(path, machine.clock.now())?;
    let place = live::path(store.path());
    if let Live::Watching(other) = live::beside(store.path()) {
        return Err(Error::Watched(other.pid));
    }
    let live = LiveFile::create(&place).map_err(|error| Error::State(place, error))?;
    let metrics = match arguments.metrics {
        Some(address) => Some(Metrics::serve(address).map_err(|error| Error::Metrics(address, error))?),
        None => None,
    };
    let (stop, reload) = (stop_flag()?, reload_flag()?);
    let face = Face::new(arguments, cpus, reload, live, metrics)
        .map_err(|error| Error::Events(arguments.events.clone().unwrap_or_default(), error))?;
    let summary = watch::run(&request(arguments, knobs), &machine, store, &stop, &face);
    face.end();
    drop(face);
    let summary = summary?;
    if arguments.json {
        view::print_json(&summary)?;
    } else {
        view::print(&show::summary(&summary))?;
    }
    Ok(summary.verdict.exit_code())
}

fn request(arguments: &WatchArguments, knobs: Knobs) -> Request {
    Request {
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
