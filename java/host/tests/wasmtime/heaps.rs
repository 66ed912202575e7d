//! The heaps of the tests.

use std::sync::{Arc, Once};

use rampart_heap::wasmtime::{HeapPlan, HeapShare};
use rampart_heap::wear::{ClusterBytes, FailurePercent, draw_failures};
use rampart_heap::{CollectionStress, HeapSettings, SimulatedMemory};
use wasmtime::{Collector, Config, Engine, Store};

/// 3 MiB: tests of wasmtime's fill it.
const PAGES: usize = 768;

/// The plan of a heap with so many working pages. The share of failed lines is `RAMPART_HOLES`, in percent; with
/// `RAMPART_STRESS`, there is a collection before each allocation.
pub fn plan(pages: usize) -> HeapPlan {
    let holes = std::env::var("RAMPART_HOLES").unwrap_or_else(|_| "0".to_owned());
    let holes = holes.parse::<FailurePercent>().expect("a share in percent").share();
    let pages = holes.compensated(pages).expect("not everything has failed");
    let stress = if is_stressed() { CollectionStress::EACH } else { CollectionStress::Off };
    let failed = draw_failures(pages, holes, ClusterBytes::LINE, 1);
    HeapPlan {
        settings: HeapSettings { stress, ..HeapSettings::default() },
        memory: Box::new(SimulatedMemory::new(failed)),
        shared: Arc::new(HeapShare::default()),
    }
}

pub fn is_stressed() -> bool {
    std::env::var_os("RAMPART_STRESS").is_some()
}

/// In the place of `Config::new()`: all heaps are ours.
pub fn config() -> Config {
    static PLANNED: Once = Once::new();
    PLANNED.call_once(|| HeapPlan::plan_all(|| plan(PAGES)));
    let mut config = Config::new();
    config.collector(Collector::Copying).gc_heap_initial_size(1 << 32);
    config
}

/// In the place of `Engine::default()`.
pub fn engine() -> Engine {
    Engine::new(&config()).expect("the machine can run WebAssembly")
}

/// In the place of `Store::default()`.
#[allow(dead_code, reason = "only wasmtime's tests make such stores")]
pub fn store() -> Store<()> {
    Store::new(&engine(), ())
}
