//! Random steps on `FullestBank` and on a reference model; all invariants are checked after every step: no overlap, no
//! loss, no refusal while a block is free, pools of whole banks, [Panwar15, 4.1.2 and 4.2].

mod model;
mod shape;

use std::env;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use shape::Shape;

/// As many operations as the variable `RAMPART_OPERATIONS` says, or a few, on machines of all shapes but the largest.
#[test]
fn many_operations_do_what_a_set_of_frames_does() {
    let wanted = env::var("RAMPART_OPERATIONS").map_or(200_000, |count| count.parse().expect("a number"));
    let mut runner = TestRunner::deterministic();
    let (mut operations, mut machines) = (0, 0);
    while operations < wanted {
        let shape = Shape::ALL[machines % (Shape::ALL.len() - 1)]();
        let steps = prop::collection::vec(shape.step(), 40).new_tree(&mut runner).expect("steps").current();
        operations += shape.perform(steps).unwrap();
        machines += 1;
    }
    eprintln!("{operations} operations, {machines} machines");
}

/// Compares so many random sequences of steps, unless `PROPTEST_CASES` says how many.
fn compare(shape: &Shape, cases: u32) {
    let cases = env::var("PROPTEST_CASES").map_or(cases, |text| text.parse().expect("a number"));
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let steps = prop::collection::vec(shape.step(), 1..40);
    let result = TestRunner::new(config).run(&steps, |steps| shape.perform(steps).map(drop));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn it_does_what_a_set_of_frames_does() {
    compare(&Shape::two_nodes(), 48);
}

#[test]
fn the_smallest_banks_do_what_a_set_of_frames_does() {
    compare(&Shape::smallest_banks(), 48);
}

#[test]
fn larger_banks_do_what_a_set_of_frames_does() {
    compare(&Shape::larger_banks(), 48);
}

#[test]
fn the_largest_banks_do_what_a_set_of_frames_does() {
    compare(&Shape::largest_banks(), 4);
}

#[test]
fn one_bank_for_two_cpus_does_what_a_set_of_frames_does() {
    compare(&Shape::one_bank(), 48);
}

#[test]
fn one_cpu_does_what_a_set_of_frames_does() {
    compare(&Shape::one_cpu(), 48);
}

#[test]
fn eight_cpus_do_what_a_set_of_frames_does() {
    compare(&Shape::eight_cpus(), 48);
}

#[test]
fn nearly_full_memory_does_what_a_set_of_frames_does() {
    compare(&Shape::nearly_full(), 48);
}

#[test]
fn interleaved_banks_do_what_a_set_of_frames_does() {
    compare(&Shape::interleaved(), 48);
}
