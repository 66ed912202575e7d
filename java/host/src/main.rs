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
mod report;
mod state;
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
use wasmtime::{Cache, CacheConfig, Collector, Config, Engine, ExternRef, Linker, Module, Result, Store, Val, bail};

use crate::arguments::Arguments;
use crate::errors::end;
use crate::imports::link;
use crate::js::JsValue;
use crate::state::HostState;

/// The stack, for deep recursion: HotSpot's default is 1 MiB, but its frames are smaller. The thread has more: where
/// this is full, the exception is thrown by functions that need some.
const STACK: usize = 64 << 20;

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
    let runner = thread::Builder::new().stack_size(4 * STACK).spawn(move || run(&arguments, of_run));
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

fn write_report(path: &Path, shared: &HeapShare, ran: Option<Duration>) {
    if let Err(error) = report::write(path, &shared, ran) {
        eprintln!("rampart-java: the report cannot be written to {} ({error})", path.display());
    }
}

/// In tests, one failure of so many comes whatever the program does, and all others while it neither allocates nor
/// collects: at high rates, it would be collecting most of the time.
const ANYWHERE: u64 = 25;

/// Makes lines fail from now on.
fn fail_lines(times: FailureTimes, shared: Arc<HeapShare>, is_test: bool) {
    thread::spawn(move || {
        for (pause, place) in times {
            thread::sleep(pause);
            while is_test && place % ANYWHERE > 0 && shared.failures.is_inside() {
                thread::sleep(Duration::from_micros(20));
            }
            shared.failures.raise(place, Instant::now());
        }
    });
}

/// Runs the program; returns how it ended, and how long its main method took.
fn run(arguments: &Arguments, shared: Arc<HeapShare>) -> Result<(ExitCode, Duration)> {
    let mut config = Config::new();
    config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true).wasm_tail_call(true);
    config.async_stack_size(2 * STACK).max_wasm_stack(STACK);
    config.collector(Collector::Copying).gc_heap_initial_size(1 << 32);
    if let Some(folder) = &arguments.cache {
        let mut of_code = CacheConfig::new();
        of_code.with_directory(folder);
        config.cache(Some(Cache::new(of_code)?));
    }
    throw_losses(arguments.throw_losses);
    throw_overflows(true);
    let engine = Engine::new(&config)?;
    let module = Module::from_file(&engine, &arguments.module)?;
    let mut store = Store::new(&engine, HostState::new(Arc::clone(&shared)));
    let mut linker = Linker::new(&engine);
    link(&mut linker, &module)?;
    let instance = linker.instantiate(&mut store, &module)?;
    let Some(Val::ExternRef(Some(main))) = instance.get_global(&mut store, "main").map(|main| main.get(&mut store))
    else {
        bail!("{} has no main method: was it compiled by `rampart java`?", arguments.module.display());
    };
    let Some(JsValue::Function(main)) = JsValue::of(&store, &main)? else { bail!("`main` is no method") };
    let texts = arguments.arguments.iter().map(|text| JsValue::text(text)).collect();
    let texts = Val::ExternRef(Some(ExternRef::new(&mut store, JsValue::Array(texts))?));
    let ty = main.ty(&store);
    let parameters = vec![texts; ty.params().len()];
    let mut results = vec![Val::I32(0); ty.results().len()];
    if let Some(times) = arguments.failure_times() {
        fail_lines(times, shared, arguments.canaries);
    }
    let began = Instant::now();
    let ended = main.call(&mut store, &parameters, &mut results);
    store.data_mut().flush();
    let ran = began.elapsed();
    Ok((end(ended, &store.data().exceptions)?, ran))
}
