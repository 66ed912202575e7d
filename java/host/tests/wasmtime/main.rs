//! WebAssembly's own tests of references, objects and exceptions, and wasmtime's of its collectors, on our heap.
//! `java/conformance` runs them, with several shares of failed lines.

/// What `tests/all/gc.rs` of wasmtime needs beside it.
mod async_functions;
mod heaps;
mod scripts;
mod gc {
    // wasmtime's file, with its configurations replaced by ours.
    include!(env!("RAMPART_WASMTIME_GC"));
}

use wasmtime::{Engine, Module, PoolingAllocationConfig, Result, Store};

use crate::heaps::config;

fn ref_types_module(has_epochs: bool, source: &str) -> Result<(Store<()>, Module)> {
    let mut config = config();
    config.wasm_reference_types(true).wasm_tail_call(true).epoch_interruption(has_epochs);
    let engine = Engine::new(&config)?;
    let mut store = Store::new(&engine, ());
    if has_epochs {
        store.set_epoch_deadline(1);
    }
    let module = Module::new(&engine, source)?;
    Ok((store, module))
}

fn gc_store() -> Result<Store<()>> {
    let mut config = config();
    config.wasm_function_references(true).wasm_gc(true);
    Ok(Store::new(&Engine::new(&config)?, ()))
}

fn small_pool_config() -> PoolingAllocationConfig {
    let mut config = PoolingAllocationConfig::new();
    config.total_memories(1).max_memory_size(1 << 32).total_tables(1).table_elements(10).total_stacks(1);
    config
}

const fn no_hog_memory() -> bool {
    false
}

const fn skip_pooling_allocator_tests() -> bool {
    false
}
