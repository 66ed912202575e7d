//! Random steps on the bank-aware buddy systems and on a reference model; all invariants are checked after every step.

#![allow(clippy::cast_possible_truncation, reason = "the machines are small")]

mod checks;
mod naive;
mod world;

use std::env;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rampart_buddy::{BankPool, Cpu, StealRule};

use naive::Kind;
use world::{Setup, Step, World, setup, step};

fn run_steps(
    setup: Setup,
    steps: Vec<Step>,
    mut check: impl FnMut(&World) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut world = World::new(setup);
    check(&world)?;
    steps.into_iter().try_for_each(|step| {
        world.step(step)?;
        check(&world)
    })
}

/// As many operations on each allocator as the variable `RAMPART_OPERATIONS` says, or a few; `World::step` compares
/// each result.
#[test]
fn many_operations_do_what_the_naive_allocator_does() {
    let wanted = env::var("RAMPART_OPERATIONS").map_or(20_000, |count| count.parse().expect("a number"));
    let mut runner = TestRunner::deterministic();
    for kind in [Kind::Adaptive(StealRule::MostFree), Kind::Adaptive(StealRule::Lowest), Kind::Array, Kind::List] {
        let (mut operations, mut steals, mut worlds) = (0, 0, 0);
        while operations < wanted {
            let interleaved = worlds % 2 == 1 && matches!(kind, Kind::Adaptive(_));
            let mut world = World::new(Setup { bank: [1024, 1024, 2048][worlds % 3], interleaved, kind });
            let steps = prop::collection::vec(step(), 200).new_tree(&mut runner).expect("steps").current();
            steps.into_iter().try_for_each(|step| world.step(step)).unwrap();
            (operations, worlds) = (operations + world.operations, worlds + 1);
            steals += world.allocator.statistics().steals;
        }
        eprintln!("{kind:?}: {operations} operations, {steals} banks stolen, {worlds} machines");
        assert!(steals > 0 || kind == Kind::Array);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// `World::step` compares every block that is given out: its zone, its pool, the bank that is stolen, and that no
    /// request is refused while there is a block that it may have.
    #[test]
    fn pools_and_counts_are_those_of_the_naive_allocator(setup in setup(), steps in steps()) {
        run_steps(setup, steps, checks::pools_and_counts)?;
    }

    #[test]
    fn every_frame_is_in_one_place_and_buddies_are_merged(setup in setup(), steps in steps()) {
        run_steps(setup, steps, checks::places)?;
    }

    #[test]
    fn a_bank_of_the_user_pool_has_no_unmovable_page_and_an_offline_one_no_page(setup in setup(), steps in steps()) {
        run_steps(setup, steps, checks::pages_of_pools)?;
    }

    #[test]
    fn banks_of_a_set_are_in_one_pool_and_partial_ones_in_the_kernels(setup in setup(), steps in steps()) {
        run_steps(setup, steps, checks::pools_of_sets)?;
    }

    /// [Panwar15, 4.1]: O(n). The lists may look at the cached bank twice.
    #[test]
    fn an_allocation_looks_at_no_more_banks_than_its_zone_has(setup in setup(), steps in steps()) {
        run_steps(setup, steps, |world| {
            let of_zone = |zone| world.naive.parts.iter().filter(|part| part.zone == zone).count() as u64;
            let largest = (0..3).map(of_zone).max().unwrap();
            let bound = match setup.kind {
                Kind::Adaptive(_) => 0,
                Kind::Array => largest,
                Kind::List => largest + 1,
            };
            prop_assert!(world.allocator.searches().most <= bound, "{:?}", world.allocator.searches());
            Ok(())
        })?;
    }

    /// When all blocks come back, nothing is left but what is retired.
    #[test]
    fn nothing_is_lost(setup in setup(), steps in steps()) {
        let mut world = World::new(setup);
        steps.into_iter().try_for_each(|step| world.step(step))?;
        while let Some((held, _)) = world.naive.held.first().copied() {
            world.allocator.free(held, Cpu(0));
            world.naive.free(held);
        }
        for (index, part) in world.naive.parts.iter().enumerate() {
            let state = world.allocator.part(index);
            let retired = world.naive.retired.range(part.frames.clone()).count() as u64;
            prop_assert_eq!(state.free + retired, state.frames.count());
            let pinned = world.naive.of_set(part.set).any(|part| part.is_partial);
            prop_assert_eq!(state.pool, if pinned { BankPool::Kernel } else { BankPool::Offline });
        }
    }
}
