//! Runs a Java program that TeaVM has compiled to WebAssembly, on a heap of which lines have failed.
//!
//! **Problem.** TeaVM's programs expect a JavaScript engine: strings, console, clock, weak references. **Idea.** The
//! host offers what programs without a browser ask for, and nothing else: a program that asks for more ends with the
//! name of the function. **Why this way.** A JavaScript engine would bring a heap of its own.
//!
//! Libraries: `wasmtime` (an engine without JavaScript that has garbage collection, exceptions and tail calls),
//! `clap` (arguments).

#![forbid(unsafe_code)]

mod arguments;
mod errors;
mod imports;
mod js;
mod state;
mod weak;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Parser as _;
use rampart_heap::Collection;
use rampart_heap::wasmtime::{HeapShare, throw_losses};
use wasmtime::{Collector, Config, Engine, ExternRef, Linker, Module, Result, Store, Val, bail};

use crate::arguments::Arguments;
use crate::errors::end;
use crate::imports::link;
use crate::js::JsValue;
use crate::state::HostState;

/// The stack, for deep recursion: HotSpot's default is 1 MiB, but its frames are smaller.
const STACK: usize = 64 << 20;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let shared = Arc::new(HeapShare::default());
    if let Err(error) = arguments.plan(Arc::clone(&shared)).leave() {
        eprintln!("rampart-java: {error}");
        return ExitCode::from(2);
    }
    let (is_quiet, of_run) = (arguments.quiet, Arc::clone(&shared));
    let runner = thread::Builder::new().stack_size(4 * STACK).spawn(move || run(&arguments, of_run));
    let ended = runner.map(|runner| runner.join().expect("the runner ends with its result"));
    if !is_quiet {
        print_log(&shared);
    }
    match ended {
        Ok(Ok(code)) => code,
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

fn run(arguments: &Arguments, shared: Arc<HeapShare>) -> Result<ExitCode> {
    let mut config = Config::new();
    config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true).wasm_tail_call(true);
    config.async_stack_size(2 * STACK).max_wasm_stack(STACK);
    config.collector(Collector::Copying).gc_heap_initial_size(1 << 32);
    throw_losses(arguments.throw_losses);
    let engine = Engine::new(&config)?;
    let module = Module::from_file(&engine, &arguments.module)?;
    let mut store = Store::new(&engine, HostState::new(shared));
    let mut linker = Linker::new(&engine);
    link(&mut linker, &module)?;
    let instance = linker.instantiate(&mut store, &module)?;
    let Some(Val::ExternRef(Some(main))) = instance.get_global(&mut store, "main").map(|main| main.get(&mut store))
    else {
        bail!("{} has no main method: was it compiled by java/compile?", arguments.module.display());
    };
    let Some(JsValue::Function(main)) = JsValue::of(&store, &main)? else { bail!("`main` is no method") };
    let texts = arguments.arguments.iter().map(|text| JsValue::text(text)).collect();
    let texts = Val::ExternRef(Some(ExternRef::new(&mut store, JsValue::Array(texts))?));
    let ty = main.ty(&store);
    let parameters = vec![texts; ty.params().len()];
    let mut results = vec![Val::I32(0); ty.results().len()];
    let ended = main.call(&mut store, &parameters, &mut results);
    store.data_mut().flush();
    end(ended, &store.data().exceptions)
}

/// Prints what the collections did, on stderr.
#[expect(clippy::cast_precision_loss, reason = "milliseconds")]
fn print_log(shared: &HeapShare) {
    let log = shared.log();
    let mut pauses: Vec<f64> = log.pauses.iter().map(|(_, pause)| pause.as_nanos() as f64 / 1e6).collect();
    pauses.sort_by(f64::total_cmp);
    let at = |part: usize| pauses.get((pauses.len() * part).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0.0);
    let of_young = log.pauses.iter().filter(|(kind, _)| *kind == Collection::Nursery).count();
    eprintln!(
        "collections {} (young {of_young}, all {}), {:.1} ms; pauses ms p50 {:.3}, p99 {:.3}, max {:.3}; moved {}, cards \
         {}; perfect pages {} asked for, {} borrowed, {} at most at a time; tables {} KiB",
        pauses.len(),
        pauses.len() - of_young,
        pauses.iter().fold(0.0, |sum, pause| sum + pause),
        at(50),
        at(99),
        at(100),
        log.counts.moved,
        log.counts.cards,
        log.demand.requested,
        log.demand.borrowed,
        log.demand.most_borrowed,
        log.metadata / 1024,
    );
}
