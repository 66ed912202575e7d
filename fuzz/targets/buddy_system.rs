//! Whatever is asked of a buddy system, it does what a naive one does.

#![no_main]

#[path = "../../crates/buddy/tests/properties/checks.rs"]
mod checks;
#[path = "../../crates/buddy/tests/properties/naive.rs"]
mod naive;
#[allow(dead_code, reason = "the tests count its operations")]
#[path = "../../crates/buddy/tests/properties/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use proptest::test_runner::TestCaseError;
use rampart_fuzz::drawn;

use world::{Step, World, step};

/// More would take long.
const STEPS: usize = 50;

/// Some checks are too slow to be made after each step; but each step is the last one of some input.
fn check(world: &World, is_last: bool) -> Result<(), TestCaseError> {
    checks::lists_and_counts(world)?;
    if is_last {
        checks::places(world)?;
        checks::buddies(world)?;
    }
    checks::local_lists(world)
}

fuzz_target!(|bytes: &[u8]| {
    let steps: Vec<Step> = drawn(&step(), bytes).take(STEPS).collect();
    let mut world = World::new();
    for (number, &step) in steps.iter().enumerate() {
        let result = world.step(step).and_then(|()| check(&world, number + 1 == steps.len()));
        result.unwrap_or_else(|difference| panic!("{difference}: the last of {:#?}", &steps[..=number]));
    }
});
