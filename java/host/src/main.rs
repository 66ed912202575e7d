//! Runs a Java program that TeaVM has compiled to WebAssembly, on a heap of which lines have failed.
//!
//! **Problem.** TeaVM's programs expect a JavaScript engine: strings, console, clock, weak references. **Idea.** The
//! host offers what programs without a browser ask for, and nothing else: a program that asks for more ends with the
//! name of the function. **Why this way.** A JavaScript engine would bring a heap of its own.
//!
//! Libraries: `wasmtime` (an engine without JavaScript that has garbage collection, exceptions and tail calls),
//! `clap` (arguments), `serde_json` (the report), `signal-hook` (a report when a signal ends the program).

#![forbid(unsafe_code)]

mod arguments;
mod errors;
mod imports;
mod js;
mod program;
mod report;
mod state;
mod usage;
mod watching;
mod weak;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser as _;
use rampart_heap::wasmtime::{HeapShare, throw_losses, throw_overflows};
use rampart_heap::wear::FailureTimes;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use wasmtime::{Engine, Result, Store};

use crate::arguments::Arguments;
use crate::program::{MainTime, THREAD_STACK};
use crate::state::HostState;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shared = Arc::new(HeapShare::default());
    let left = arguments.plan(Arc::clone(&shared)).and_then(|plan| plan.leave().map_err(|error| error.to_string()));
    if let Err(error) = left {
        eprintln!("rampart-java: {error}");
        return ExitCode::from(2);
    }
    let report = arguments.report.clone();
    if let Some(path) = report.clone()
        && let Err(error) = report_when_stopped(path, Arc::clone(&shared))
    {
        eprintln!("rampart-java: signals cannot be caught: {error}");
        return ExitCode::from(2);
    }
    if arguments.canaries {
        shared.failures.watch();
    }
    let of_run = Arc::clone(&shared);
    let runner = thread::Builder::new().stack_size(THREAD_STACK).spawn(move || run(&arguments, of_run));
    let ended = runner.map(|runner| runner.join().expect("the runner ends with its result"));
    let refused = shared.log().counts.refused;
    if refused.mappings > 0 {
        eprintln!("rampart-java: the kernel had no mapping left for pages of the heap: raise vm.max_map_count");
    }
    if refused.perfect_frames > 0 {
        eprintln!("rampart-java: the kernel gave no more frames without failed lines, which large objects need");
    }
    if let Some(path) = report {
        let ran = ended.as_ref().ok().and_then(|ended| ended.as_ref().ok()).map(|(_, ran)| *ran);
        write_report(&path, &shared, ran);
    }
    match ended {
        Ok(Ok((code, _))) => code,
        // Even what the program is before it starts does not fit the heap.
        Ok(Err(error)) if errors::is_out_of_memory(&error) => {
            eprintln!("{}", errors::OUT_OF_MEMORY);
            ExitCode::FAILURE
        }
        Ok(Err(error)) => {
            eprintln!("rampart-java: {error:#}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("rampart-java: no thread can be started: {error}");
            ExitCode::from(2)
        }
    }
}

/// A signal ends the program at once, as it ends others, but not without the report.
fn report_when_stopped(path: PathBuf, shared: Arc<HeapShare>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            write_report(&path, &shared, None);
            // Returns only if the signal ends nothing.
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}

fn write_report(path: &Path, shared: &HeapShare, ran: Option<MainTime>) {
    if let Err(error) = report::write(path, shared, ran) {
        eprintln!("rampart-java: the report cannot be written to {} ({error})", path.display());
    }
}

/// With `--fail-outside`, one failure of so many comes whatever the program does, and all others while it neither
/// allocates nor collects: at high rates, it would be collecting most of the time.
const ANYWHERE: u64 = 25;

/// Makes lines fail from now on.
fn fail_lines(times: FailureTimes, shared: Arc<HeapShare>, is_outside: bool) {
    thread::spawn(move || {
        for (pause, place) in times {
            thread::sleep(pause);
            while is_outside && place % ANYWHERE > 0 && shared.failures.is_inside() {
                thread::sleep(Duration::from_micros(20));
            }
            shared.failures.raise(place, Instant::now());
        }
    });
}

/// Runs the program; returns how it ended, and how long its main method took.
fn run(arguments: &Arguments, shared: Arc<HeapShare>) -> Result<(ExitCode, MainTime)> {
    let mut config = program::settings(arguments.cache.as_deref())?;
    config.gc_heap_initial_size(1 << 32);
    throw_losses(arguments.throw_losses);
    throw_overflows(true);
    let store = Store::new(&Engine::new(&config)?, HostState::new(Arc::clone(&shared)));
    let begin = || {
        if let Some(times) = arguments.failure_times() {
            fail_lines(times, shared, arguments.fail_outside);
        }
    };
    program::run(store, (&arguments.module, &arguments.arguments), begin)
}
