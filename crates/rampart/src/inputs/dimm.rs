//! The errors of DIMMs that rasdaemon recorded, and how often they came.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rampart_memory::{Severity, Timestamp};
use rampart_scale::confidence::mean_between;
use rampart_store::rasdaemon::Rasdaemon;
use serde::Serialize;

use crate::error::Error;
use crate::inputs::files;
use crate::parsing::RAREST_SECONDS;

/// What was recorded of one DIMM.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct History {
    /// Corrected errors.
    pub corrected: u64,
    /// Errors that were detected and not corrected.
    pub uncorrected: u64,
    /// Over how long, in seconds: from the first error of any DIMM until the database was last written.
    pub seconds: f64,
    /// Mean time between its corrected errors, in seconds.
    pub mtbce_seconds: Option<f64>,
    /// The ends of the interval of that with 95 %.
    pub mtbce_interval: (f64, Option<f64>),
}

impl History {
    /// Whether its errors are rarer than can be simulated.
    pub fn is_rare(&self) -> bool {
        self.mtbce_seconds.is_some_and(|seconds| seconds > RAREST_SECONDS)
    }
}

/// The history of each DIMM in a database, by label.
pub fn histories(path: &Path) -> Result<BTreeMap<String, History>, Error> {
    files::length(path).map_err(|why| Error::Database { path: path.to_owned(), why })?;
    let batch = Rasdaemon::open(path, Timestamp::default())?.poll()?;
    let written = fs::metadata(path).and_then(|file| file.modified()).ok();
    let written = written.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let first = batch.errors.iter().map(|error| error.at).min().unwrap_or_default();
    let last = batch.errors.iter().map(|error| error.at).max().unwrap_or_default();
    let until = written.map_or(last, |written| {
        last.max(Timestamp::from_micros(u64::try_from(written.as_micros()).unwrap_or(u64::MAX)))
    });
    let seconds = until.since(first).as_secs_f64();
    let mut histories: BTreeMap<String, History> = BTreeMap::new();
    for error in &batch.errors {
        let label = error.place.as_ref().map(|place| place.label.clone()).unwrap_or_default();
        let history = histories.entry(label).or_default();
        match error.severity {
            Severity::Corrected => history.corrected += u64::from(error.count),
            _ => history.uncorrected += u64::from(error.count),
        }
    }
    for history in histories.values_mut() {
        let (mean, least, most) = mean_between(history.corrected, seconds);
        (history.seconds, history.mtbce_seconds, history.mtbce_interval) = (seconds, mean, (least, most));
    }
    Ok(histories)
}

/// The history of the DIMM with this label.
pub fn history(path: &Path, label: &str) -> Result<History, Error> {
    let mut erring = histories(path)?;
    erring.retain(|_, history| history.mtbce_seconds.is_some());
    erring.remove(label).ok_or_else(|| {
        let known = erring.into_keys().collect::<Vec<_>>().join(", ");
        let none = || format!("{} holds none of any DIMM", path.display());
        let remedy = if known.is_empty() { none() } else { format!("name one of {known}") };
        Error::NoSuchDimm { label: label.to_owned(), remedy }
    })
}
