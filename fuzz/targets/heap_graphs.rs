//! Whatever a program does and whichever lines fail or are lost, the heap keeps the program's objects, as a model says.

#![no_main]

#[path = "../../crates/heap/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;
use rampart_fuzz::drawn;
use rampart_heap::Collection;

use model::{Pair, Step, setup, step};

/// More would take long.
const STEPS: usize = 200;

fuzz_target!(|bytes: &[u8]| {
    let Some(setup) = drawn(&setup(), bytes).next() else { return };
    let steps: Vec<Step> = drawn(&step(), bytes).skip(1).take(STEPS).collect();
    let mut pair = Pair::new(setup);
    steps.into_iter().for_each(|step| pair.run(step));
    for kind in [Collection::Nursery, Collection::Full, Collection::Full] {
        pair.collect(kind);
    }
});
