//! Whatever is asked of an array or lists of banks or of Adaptive-Buddy, it does what a naive allocator does.

#![no_main]

#[path = "../../crates/buddy/tests/banked/checks.rs"]
mod checks;
#[path = "../../crates/buddy/tests/banked/naive/mod.rs"]
mod naive;
#[allow(dead_code, reason = "the tests count its operations")]
#[path = "../../crates/buddy/tests/banked/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use proptest::test_runner::TestCaseError;
use rampart_fuzz::drawn;

use world::{Step, World, setup, step};

/// More would take long.
const STEPS: usize = 50;

/// Some checks are too slow to be made after each step; but each step is the last one of some input.
fn check(world: &World, is_last: bool) -> Result<(), TestCaseError> {
    checks::pools_and_counts(world)?;
    if is_last {
        checks::places(world)?;
    }
    checks::pages_of_pools(world)?;
    checks::pools_of_sets(world)
}

fuzz_target!(|bytes: &[u8]| {
    let Some(setup) = drawn(&setup(), bytes).next() else { return };
    let steps: Vec<Step> = drawn(&step(), bytes).skip(1).take(STEPS).collect();
    let mut world = World::new(setup);
    for (number, &step) in steps.iter().enumerate() {
        let result = world.step(step).and_then(|()| check(&world, number + 1 == steps.len()));
        result.unwrap_or_else(|difference| panic!("{setup:?}: {difference}: the last of {:#?}", &steps[..=number]));
    }
});
