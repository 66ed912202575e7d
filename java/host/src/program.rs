//! A compiled program in wasmtime: what does not depend on the collector.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use wasmtime::{Cache, CacheConfig, Collector, Config, ExternRef, Linker, Module, Result, Store, Val, bail};

use crate::errors::end;
use crate::imports::link;
use crate::js::JsValue;
use crate::state::HostState;
use crate::usage::processor_time;

/// The stack, for deep recursion: HotSpot's default is 1 MiB, but its frames are smaller. The thread has more: where
/// this is full, the exception is thrown by functions that need some.
const STACK: usize = 64 << 20;

/// The stack of the thread that runs a program.
pub const THREAD_STACK: usize = 4 * STACK;

/// What TeaVM's programs need. What is compiled to machine code is kept in a folder, if there is one.
pub fn settings(cache: Option<&Path>) -> Result<Config> {
    let mut config = Config::new();
    config.wasm_gc(true).wasm_function_references(true).wasm_exceptions(true).wasm_tail_call(true);
    config.async_stack_size(2 * STACK).max_wasm_stack(STACK);
    config.collector(Collector::Copying);
    if let Some(folder) = cache {
        let mut of_code = CacheConfig::new();
        of_code.with_directory(folder);
        config.cache(Some(Cache::new(of_code)?));
    }
    Ok(config)
}

/// How long the main method of a program took.
#[derive(Clone, Copy, Debug)]
pub struct MainTime {
    pub elapsed: Duration,
    /// What its thread had of a processor, if the kernel says so.
    pub processor: Option<Duration>,
}

/// Runs the program; returns how it ended, and how long its main method took. `begin` is called just before.
pub fn run(
    mut store: Store<HostState>,
    (path, arguments): (&Path, &[String]),
    begin: impl FnOnce(),
) -> Result<(ExitCode, MainTime)> {
    let module = Module::from_file(store.engine(), path)?;
    let mut linker = Linker::new(store.engine());
    link(&mut linker, &module)?;
    let instance = linker.instantiate(&mut store, &module)?;
    let Some(Val::ExternRef(Some(main))) = instance.get_global(&mut store, "main").map(|main| main.get(&mut store))
    else {
        bail!("{} has no main method: was it compiled by `rampart java`?", path.display());
    };
    let Some(JsValue::Function(main)) = JsValue::of(&store, &main)? else { bail!("`main` is no method") };
    let texts = arguments.iter().map(|text| JsValue::text(text)).collect();
    let texts = Val::ExternRef(Some(ExternRef::new(&mut store, JsValue::Array(texts))?));
    let ty = main.ty(&store);
    let parameters = vec![texts; ty.params().len()];
    let mut results = vec![Val::I32(0); ty.results().len()];
    begin();
    let (began, had) = (Instant::now(), processor_time());
    let ended = main.call(&mut store, &parameters, &mut results);
    store.data_mut().flush();
    let processor = processor_time().zip(had).map(|(has, had)| has.saturating_sub(had));
    let ran = MainTime { elapsed: began.elapsed(), processor };
    Ok((end(ended, &store.data().exceptions)?, ran))
}
