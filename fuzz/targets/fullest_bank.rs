//! Whatever is asked of FullestBank, it does what a set of frames does.

#![no_main]

#[allow(dead_code, reason = "the tests count its operations")]
#[path = "../../crates/buddy/tests/fullest/model.rs"]
mod model;
#[allow(dead_code, reason = "the tests name each shape")]
#[path = "../../crates/buddy/tests/fullest/shape.rs"]
mod shape;

use libfuzzer_sys::fuzz_target;
use rampart_fuzz::drawn;

use model::Step;
use shape::Shape;

/// More would take long.
const STEPS: usize = 50;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    // All but the largest.
    let shape = Shape::ALL[usize::from(first) % (Shape::ALL.len() - 1)]();
    let steps: Vec<Step> = drawn(&shape.step(), rest).take(STEPS).collect();
    let result = shape.perform(steps.iter().copied());
    result.unwrap_or_else(|difference| panic!("{shape:?}: {difference} in {steps:#?}"));
});
