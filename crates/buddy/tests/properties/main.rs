//! Random steps on the allocator and on a reference model; all invariants are checked after every step.

mod checks;
mod naive;
mod world;

use std::collections::BTreeSet;
use std::env;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rampart_buddy::{FramePlace, FreeLists};
use rampart_memory::Frame;

use checks::free;
use world::{Step, World, step};

fn run_steps(
    steps: Vec<Step>,
    mut check: impl FnMut(&World) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut world = World::new();
    steps.into_iter().try_for_each(|step| {
        world.step(step)?;
        check(&world)
    })
}

/// As many operations as the variable `RAMPART_OPERATIONS` says, or a few; `World::step` compares each result.
#[test]
fn many_operations_do_what_the_naive_buddy_system_does() {
    let wanted = env::var("RAMPART_OPERATIONS").map_or(50_000, |count| count.parse().expect("a number"));
    let mut runner = TestRunner::deterministic();
    let (mut operations, mut steals, mut machines) = (0, 0, 0);
    while operations < wanted {
        let mut world = if machines % 4 == 3 { World::without_local_lists() } else { World::new() };
        let steps = prop::collection::vec(step(), 100).new_tree(&mut runner).expect("steps").current();
        steps.into_iter().try_for_each(|step| world.step(step)).unwrap();
        (operations, machines) = (operations + world.operations, machines + 1);
        steals += world.buddy.statistics().steals;
    }
    eprintln!("{operations} operations, {steals} blocks stolen, {machines} machines");
    assert!(steals > 0);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// `World::step` compares every block and mark that is returned.
    #[test]
    fn it_does_what_the_naive_allocator_does(steps in steps()) {
        run_steps(steps, checks::lists_and_counts)?;
    }

    #[test]
    fn without_lists_of_cpus_it_does_what_the_naive_allocator_does(steps in steps()) {
        let mut world = World::without_local_lists();
        for step in steps {
            world.step(step)?;
            checks::lists_and_counts(&world)?;
            checks::buddies(&world)?;
            checks::places(&world)?;
        }
        prop_assert_eq!((world.buddy.statistics().refills, world.buddy.drain()), (0, 0));
    }

    #[test]
    fn every_frame_is_in_one_place_and_none_is_lost(steps in steps()) {
        run_steps(steps, checks::places)?;
    }

    #[test]
    fn no_two_free_blocks_are_buddies(steps in steps()) {
        run_steps(steps, checks::buddies)?;
    }

    /// [Rahman16, 4.1]: a page in the fault map is never allocated again.
    #[test]
    fn a_retired_frame_is_never_given_out_again(steps in steps()) {
        let mut world = World::new();
        let mut gone: BTreeSet<Frame> = BTreeSet::new();
        for step in steps {
            world.step(step)?;
            let held: BTreeSet<Frame> = world.held.iter().flat_map(|(block, _)| block.frames()).collect();
            prop_assert!(gone.is_disjoint(&held));
            prop_assert!(free(&world).all(|(_, block)| block.frames().all(|frame| !gone.contains(&frame))));
            let retired = world.naive.iter().flat_map(|zone| zone.retired.iter().copied());
            gone = retired.filter(|frame| !held.contains(frame)).collect();
            prop_assert!(gone.iter().all(|frame| world.buddy.place(*frame) == FramePlace::Retired));
        }
    }

    #[test]
    fn the_lists_of_a_cpu_are_bounded(steps in steps()) {
        run_steps(steps, checks::local_lists)?;
    }

    /// Testers may take any block; programs may not.
    #[test]
    fn programs_leave_each_zone_its_reserve(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            let before: Vec<u64> = world.zones().map(|zone| world.buddy.free_frames(zone)).collect();
            let ordinary = matches!(&step, Step::Allocate { request, .. } if !request.urgent);
            world.step(step)?;
            for (zone, before) in world.zones().zip(before).filter(|_| ordinary) {
                let min = world.buddy.watermarks(zone).min;
                prop_assert!(world.buddy.free_frames(zone) >= min.min(before));
            }
        }
    }
}
