//! Runs a Java program as `java/host` does, on wasmtime's own copying collector, without failed lines.
//!
//! **Problem.** A heap of ours is worth something only beside theirs, under the same programs. **Idea.** The modules of
//! `java/host` once more, in a workspace that leaves wasmtime its collector. **Why this way.** What a program asks of
//! its host costs the same on both.
//!
//! Libraries: `log` (hears when a collection begins and ends); the others are those of `java/host`.

#![forbid(unsafe_code)]

#[path = "../../host/src/errors.rs"]
mod errors;
mod full_heap;
#[path = "../../host/src/imports.rs"]
mod imports;
#[path = "../../host/src/js.rs"]
mod js;
mod pauses;
#[path = "../../host/src/program.rs"]
mod program;
#[path = "../../host/src/state.rs"]
mod state;
#[path = "../../host/src/usage.rs"]
mod usage;
#[path = "../../host/src/watching.rs"]
mod watching;
mod weak;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Parser;
use rampart_heap::wasmtime::HeapShare;
use serde_json::json;
use wasmtime::{Engine, ResourceLimiter, Result, Store};

use crate::program::{MainTime, THREAD_STACK};
use crate::state::HostState;

/// Run a Java program, compiled to WebAssembly, on wasmtime's copying collector
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The memory of the heap in KiB, both halves counted
    #[arg(long, value_name = "KIB", default_value = "65536", value_parser = clap::value_parser!(u32).range(512..=1 << 21))]
    heap: u32,
    /// Write how long the program and its collections took to this file, as one JSON document
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep what is compiled to machine code in this folder
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// The compiled program
    module: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = arguments.report.clone();
    let heap = full_heap::whole_pages(arguments.heap);
    let runner = thread::Builder::new().stack_size(THREAD_STACK).spawn(move || run(&arguments, heap));
    let ended = runner.map(|runner| runner.join().expect("the runner ends with its result"));
    let (code, ran) = match ended {
        Ok(Ok((code, ran))) => (code, Some(ran)),
        Ok(Err(error)) => {
            eprintln!("rampart-java-copying: {error:#}");
            (ExitCode::FAILURE, None)
        }
        Err(error) => {
            eprintln!("rampart-java-copying: no thread can be started: {error}");
            (ExitCode::from(2), None)
        }
    };
    if let Some(path) = report {
        write_report(&path, heap, ran);
    }
    code
}

fn run(arguments: &Arguments, heap: u64) -> Result<(ExitCode, MainTime)> {
    let config = program::settings(arguments.cache.as_deref())?;
    let mut store = Store::new(&Engine::new(&config)?, HostState::new(Arc::new(HeapShare::default())));
    full_heap::fill(&mut store, heap)?;
    program::run(store, (&arguments.module, &arguments.arguments), pauses::listen)
}

impl ResourceLimiter for HostState {
    fn memory_growing(&mut self, current: usize, _desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(full_heap::may_grow(current))
    }

    fn table_growing(&mut self, _current: usize, _desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(true)
    }
}

fn write_report(path: &Path, heap: u64, ran: Option<MainTime>) {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let pauses: Vec<u64> = pauses::pauses().into_iter().map(nanoseconds).collect();
    let document = json!({
        "schema": "rampart.java-copying/1",
        "program_ns": ran.map(|ran| nanoseconds(ran.elapsed)),
        "program_processor_ns": ran.and_then(|ran| ran.processor).map(nanoseconds),
        "peak_bytes": usage::peak_bytes(),
        "heap_bytes": heap,
        "pauses_ns": pauses,
    });
    if let Err(error) = std::fs::write(path, format!("{document:#}\n")) {
        eprintln!("rampart-java-copying: the report cannot be written to {} ({error})", path.display());
    }
}
