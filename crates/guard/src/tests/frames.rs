//! What is known of the frames below pages, and when they are replaced.

use super::*;

#[test]
fn a_first_use_counts_by_the_frames_that_it_got_and_a_later_one_does_not_count() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    let seen = || [Counter::Supplied, Counter::Untested].map(|counter| counts.get(counter));
    let tested = |world: &World<'_>, block| world.guard.table.lock(BlockIndex(block)).tested;
    world.read(0);
    assert_eq!((seen(), tested(&world, 0)), ([0, 4], None));
    *world.guard.engine().supplies.lock().unwrap() = Some(at(7));
    world.read(5);
    assert_eq!((seen(), tested(&world, 1)), ([4, 4], Some(at(7))));
    // The program gave a page back to the kernel by itself, and gets an untested frame for it.
    assert_eq!(world.fault(6), FaultOutcome::GoesOn);
    assert_eq!((seen(), tested(&world, 1)), ([4, 4], None));
}

#[test]
fn a_block_that_does_not_move_is_tried_again_after_a_tenth_of_a_second_and_then_after_twice_as_long_each_time() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    lock_page_5(&mut world, 0);
    *world.guard.engine().tested.lock().unwrap() = Some(at(1));
    *world.guard.engine().refuses.lock().unwrap() = true;
    let refused = |micros| {
        let mut round = ReplacementRound::default();
        while world.guard.re_place(&mut round, Duration::from_secs(1), at(micros)) != Replacement::RoundDone {}
        counts.get(Counter::Refused)
    };
    let times = [1_000, 100_999, 101_000, 300_999, 301_000, 700_999, 701_000];
    let blocks = refused(0);
    assert_eq!(times.map(|micros| refused(micros - 1_000)), [1, 1, 2, 2, 3, 3, 4].map(|times| times * blocks));
}

/// A huge page that is cut loses the frames of its zero pages, and nobody knows which pages of a block without codes
/// are zeros.
#[test]
fn a_block_that_is_cut_before_all_its_codes_are_made_does_not_count_as_tested() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(in_units(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    let guard = &world.guard;
    for (block, pending) in [(0, Units::NONE), (0, Units::run(2, 1)), (7, Units::NONE)] {
        let mut known = guard.table.lock(BlockIndex(block));
        (known.tested, known.grain, known.pending) = (Some(at(1)), Grain::NEW, pending);
        known.unlocked = Units::NONE;
        assert_eq!(known.codes.is_empty(), block == 7, "the last one was never locked");
        guard.choose(&mut known, 5, AccessPattern::Strided);
        assert_eq!(known.tested.is_some(), block == 0 && pending.is_empty(), "{block}, {pending:?}");
    }
}
