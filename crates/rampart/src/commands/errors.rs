//! `rampart errors`: shows the memory errors of this machine by DIMM, and their rates.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use rampart_linux::capabilities::{self, Feature};
use rampart_linux::errors::Controller;
use rampart_linux::{CapabilityState, ErrorCounts, Roots, SystemClock};
use rampart_memory::{Clock as _, ReplicaError, ReplicaErrorOrigin, SuspectNode};
use rampart_store::rasdaemon::DEFAULT_PATH;
use serde_json::json;

use crate::error::Error;
use crate::inputs::dimm::{self, DimmHistory};
use crate::inputs::store;
use crate::output::text;

/// Options of `rampart errors`.
#[derive(Debug, Args)]
pub struct ErrorsArguments {
    /// A database of rasdaemon [default: rasdaemon's own, if there is one]
    #[arg(long, value_name = "FILE")]
    pub database: Option<PathBuf>,
    /// Note in the store that the memory of NODE was tested, elsewhere: it is suspect no more
    #[arg(long, value_name = "NODE", conflicts_with_all = ["database", "json"])]
    pub tested: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Shows all known memory errors, and what replicas of MPI ranks had wrong. Returns 1 if there are memory errors, or a
/// node is suspect.
pub fn run(arguments: &ErrorsArguments, path: Option<PathBuf>) -> Result<u8, Error> {
    if let Some(node) = &arguments.tested {
        return note_test(node, path);
    }
    let replicas = ReplicaErrors::read(path)?;
    let roots = Roots::default();
    let counters = ErrorCounts::read(&roots).controllers;
    let events = capabilities::of(Feature::ErrorEvents, &roots).state;
    let recorded = recorded(arguments.database.as_ref())?;
    let counted = counters.as_ref().map_or(0, |all| {
        all.iter().map(|controller| controller.errors.corrected + controller.errors.uncorrected).sum::<u64>()
    });
    let histories = || recorded.iter().flat_map(|recorded| recorded.dimms.values());
    let has_errors = counted > 0 || histories().any(|history| history.corrected + history.uncorrected > 0);
    if arguments.json {
        text::print_json(&json!({
            "schema": "rampart.errors/1",
            "counters": counters.as_ref().ok(),
            "counters_absent": counters.as_ref().err().map(ToString::to_string),
            "database": recorded.as_ref().map(|recorded| &recorded.path),
            "dimms": recorded.as_ref().map(|recorded| &recorded.dimms),
            "events": events,
            "replica_errors": replicas.errors,
            "suspect_nodes": replicas.suspects,
        }))?;
        return Ok(u8::from(has_errors || !replicas.suspects.is_empty()));
    }
    let mut text = String::new();
    match &counters {
        Ok(controllers) => controllers.iter().for_each(|controller| write_controller(&mut text, controller)),
        Err(absence) => drop(writeln!(text, "counters    none: {absence}")),
    }
    match &recorded {
        Some(RecordedErrors { path, dimms }) if dimms.is_empty() => {
            let _ = writeln!(text, "recorded    nothing in {}", path.display());
        }
        Some(RecordedErrors { dimms, .. }) => {
            dimms.iter().for_each(|(label, history)| write_dimm(&mut text, label, history));
        }
        None => drop(writeln!(
            text,
            "recorded    no database of rasdaemon at {DEFAULT_PATH}: run rasdaemon, or name one with --database"
        )),
    }
    let live = match &events {
        CapabilityState::Available { detail } => format!("the kernel traces them: {detail}"),
        CapabilityState::Absent(absence) => format!("none: {absence}"),
    };
    let _ = writeln!(text, "live        {live}");
    replicas.write(&mut text);
    text::print(&text)?;
    Ok(u8::from(has_errors || !replicas.suspects.is_empty()))
}

/// Notes that the memory of a node was tested elsewhere, so it is suspect no more.
fn note_test(node: &str, path: Option<PathBuf>) -> Result<u8, Error> {
    let now = SystemClock.now();
    store::open(path, now)?.keep_node_test(node, now)?;
    text::print(&format!("node {node} counts as tested\n"))?;
    Ok(0)
}

/// What replicas of MPI ranks had wrong (`rampart mpirun`).
struct ReplicaErrors {
    errors: Vec<ReplicaError>,
    suspects: Vec<SuspectNode>,
}

impl ReplicaErrors {
    fn read(path: Option<PathBuf>) -> Result<Self, Error> {
        let now = SystemClock.now();
        let store = store::open_to_read(path, now)?;
        Ok(Self { errors: store.replica_errors()?, suspects: store.suspect_nodes(now)? })
    }

    fn write(&self, text: &mut String) {
        let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
        for error in self.errors.iter().filter(|error| error.origin == ReplicaErrorOrigin::Real) {
            *nodes.entry(error.node.as_deref().unwrap_or("no known node")).or_default() += 1;
        }
        for (node, errors) in nodes {
            let _ = writeln!(text, "replicas    {node}: {} wrong in MPI jobs", text::count(errors));
        }
        for suspect in &self.suspects {
            let _ = writeln!(text, "suspect     {}", store::suspicion(suspect));
        }
    }
}

/// The errors in a database of rasdaemon.
struct RecordedErrors {
    path: PathBuf,
    /// The history of each DIMM, by label.
    dimms: BTreeMap<String, DimmHistory>,
}

/// Reads the named database, or rasdaemon's own if there is one.
fn recorded(named: Option<&PathBuf>) -> Result<Option<RecordedErrors>, Error> {
    let path = named.cloned().or_else(|| Some(PathBuf::from(DEFAULT_PATH)).filter(|path| path.exists()));
    path.map(|path| Ok(RecordedErrors { dimms: dimm::histories(&path)?, path })).transpose()
}

fn write_controller(text: &mut String, controller: &Controller) {
    let Controller { number, errors, unplaced, dimms, .. } = controller;
    let _ = writeln!(
        text,
        "counters    controller {number}: {} corrected, {} uncorrected since its driver was loaded, {} of no known DIMM",
        text::count(errors.corrected),
        text::count(errors.uncorrected),
        text::count(unplaced.corrected + unplaced.uncorrected)
    );
    for dimm in dimms.iter().filter(|dimm| dimm.errors.corrected + dimm.errors.uncorrected > 0) {
        let (corrected, uncorrected) = (text::count(dimm.errors.corrected), text::count(dimm.errors.uncorrected));
        let _ = writeln!(text, "            {}: {corrected} corrected, {uncorrected} uncorrected", dimm.label);
    }
}

fn write_dimm(text: &mut String, label: &str, history: &DimmHistory) {
    let DimmHistory { corrected, uncorrected, seconds, mtbce_seconds, mtbce_interval: (low, high) } = history;
    let label = if label.is_empty() { "no known DIMM" } else { label };
    let _ = write!(
        text,
        "recorded    {label}: {} corrected, {} uncorrected in {:.1} days",
        text::count(*corrected),
        text::count(*uncorrected),
        seconds / 86_400.0
    );
    if let Some(mean) = mtbce_seconds {
        let high = high.map_or_else(|| "any".to_owned(), text::duration);
        let _ =
            write!(text, "; one corrected every {} ({} to {high}, 95 %)", text::duration(*mean), text::duration(*low));
    }
    text.push('\n');
}
