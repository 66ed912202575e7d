//! The errors of DIMMs that rasdaemon recorded, and their rates.

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

/// The recorded errors of one DIMM.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DimmHistory {
    /// Corrected errors.
    pub corrected: u64,
    /// Errors that were detected and not corrected.
    pub uncorrected: u64,
    /// The time of observation, in seconds: from the first error of any DIMM until the database was last written.
    pub seconds: f64,
    /// The mean time between its corrected errors, in seconds.
    pub mtbce_seconds: Option<f64>,
    /// The ends of the 95 % interval of this mean.
    pub mtbce_interval: (f64, Option<f64>),
}

impl DimmHistory {
    /// Whether its errors are too rare to be simulated.
    pub fn is_rare(&self) -> bool {
        self.mtbce_seconds.is_some_and(|seconds| seconds > RAREST_SECONDS)
    }
}

/// Reads the history of each DIMM from a database, by label.
pub fn histories(path: &Path) -> Result<BTreeMap<String, DimmHistory>, Error> {
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
    let mut histories: BTreeMap<String, DimmHistory> = BTreeMap::new();
    for error in &batch.errors {
        let label = error.place.as_ref().map(|place| place.label.clone()).unwrap_or_default();
        let history = histories.entry(label).or_default();
        match error.severity {
            Severity::Corrected => history.corrected += u64::from(error.count),
            _ => history.uncorrected += u64::from(error.count),
        }
    }
    for history in histories.values_mut() {
        let (mean, low, high) = mean_between(history.corrected, seconds);
        (history.seconds, history.mtbce_seconds, history.mtbce_interval) = (seconds, mean, (low, high));
    }
    Ok(histories)
}

/// Reads the history of the DIMM with this label.
pub fn history(path: &Path, label: &str) -> Result<DimmHistory, Error> {
    let mut with_errors = histories(path)?;
    with_errors.retain(|_, history| history.mtbce_seconds.is_some());
    with_errors.remove(label).ok_or_else(|| {
        let known = with_errors.into_keys().collect::<Vec<_>>().join(", ");
        let none = || format!("{} has no corrected errors of any DIMM", path.display());
        let remedy = if known.is_empty() { none() } else { format!("name one of {known}") };
        Error::NoSuchDimm { label: label.to_owned(), remedy }
    })
}
