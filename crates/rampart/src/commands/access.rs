//! `rampart access`: shows which memory a guarded program unlocked when.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::Args;
use maud::html;
use rampart_guard::accesses::Touch;
use rampart_memory::{Bytes, FRAME_BYTES};
use serde_json::json;

use crate::error::Error;
use crate::guards::journals::{ProcessTrace, traces};
use crate::guards::pictures::pictures;
use crate::output::html::document;
use crate::output::text;

/// Options of `rampart access`.
#[derive(Debug, Args)]
pub struct AccessArguments {
    /// The file that `rampart run --trace-access` wrote
    pub file: PathBuf,
    /// Draw it as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Summarizes a file of traces, and draws it.
pub fn run(arguments: &AccessArguments) -> Result<u8, Error> {
    let refused = |why: String| Error::Trace { path: arguments.file.clone(), why };
    let bytes = fs::read(&arguments.file).map_err(|error| refused(error.to_string()))?;
    let traces = traces(&bytes).map_err(|error| refused(error.to_string()))?;
    let summaries: Vec<Summary> = traces.iter().map(Summary::of).collect();
    if arguments.json {
        text::print_json(&json!({
            "schema": "rampart.access/1",
            "processes": summaries.iter().map(Summary::document).collect::<Vec<_>>(),
        }))?;
    } else {
        text::print(&summaries.iter().map(Summary::line).collect::<String>())?;
    }
    if let Some(path) = &arguments.html {
        let drawn = page(&arguments.file.to_string_lossy(), &traces);
        fs::write(path, drawn).map_err(|cause| Error::Plot { path: path.clone(), cause })?;
    }
    Ok(0)
}

/// The page of a file of traces.
fn page(name: &str, traces: &[ProcessTrace]) -> String {
    let body = html! {
        h1 { "Unlocked memory over time: " code { (name) } }
        (pictures(traces))
    };
    document(name, &body)
}

/// The figures of a trace.
struct Summary {
    process: u32,
    seconds: f64,
    reads: usize,
    writes: usize,
    prefetched: usize,
    lost: u64,
    /// The heap up to the last page that was unlocked.
    heap: Bytes,
}

impl Summary {
    fn of(trace: &ProcessTrace) -> Self {
        let of = |touch| trace.accesses.iter().filter(|access| access.touch == touch).count();
        let times = || trace.accesses.iter().map(|access| access.at);
        let seconds = times().max().zip(times().min()).map_or(0.0, |(last, first)| last.since(first).as_secs_f64());
        let pages = trace.accesses.iter().map(|access| access.page.0 + u64::from(access.pages)).max().unwrap_or(0);
        Self {
            process: trace.process,
            seconds,
            reads: of(Touch::Read),
            writes: of(Touch::Write),
            prefetched: of(Touch::Prefetch),
            lost: trace.lost,
            heap: Bytes::new(pages * FRAME_BYTES),
        }
    }

    fn line(&self) -> String {
        let Self { process, seconds, reads, writes, prefetched, lost, heap } = self;
        let [reads, writes, prefetched] = [reads, writes, prefetched].map(|number| text::count(*number as u64));
        let mut line = format!(
            "process {process}: unlocked in {heap} of heap in {seconds:.3} s: {reads} for a read, {writes} for a write, {prefetched} prefetched"
        );
        if *lost > 0 {
            let _ = write!(line, "; {} more were not recorded: there was no room", text::count(*lost));
        }
        line + "\n"
    }

    fn document(&self) -> serde_json::Value {
        let Self { process, seconds, reads, writes, prefetched, lost, heap } = self;
        json!({
            "process": process, "seconds": seconds, "reads": reads, "writes": writes, "prefetched": prefetched, "lost": lost,
            "heap_bytes": heap.get(),
        })
    }
}
