//! How much of a block is unlocked, and what happens to its parts.

use super::*;

use crate::policy::unlocked_queue::UnlockedUnits;
use crate::state::table::{BlockState, GuardBlock};

/// Blocks of 64 units of a page; 128 units may be unlocked.
fn wide() -> GuardSettings {
    GuardSettings { block_pages: 64, unit_pages: 1, cap: Bytes::new(128 * 4096), ..settings() }
}

/// The first and the number of the units that a jump to `unit` unlocks, in a block of 64 of which `grain` was unlocked
/// last, and since then `since` units of others.
fn chosen(unit: u32, grain: (u32, u32), since: u64) -> (u32, u32) {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let world = World::new(wide(), &counts, &reported);
    let (next, run) = grain;
    let mut known = world.guard.table.lock(BlockIndex(0));
    (known.state, known.grain) = (BlockState::Used, Grain::Units { next, run, at: 0 });
    assert_eq!(world.guard.unlocked_queue().cap(), 128);
    for _ in 0..since {
        let other = UnlockedUnits { block: BlockIndex(0), units: Units::run(0, 1) };
        world.guard.unlocked_queue().prefetched(other, at(0));
    }
    let units = world.guard.choose(&mut known, unit, AccessPattern::Unknown);
    let run = units.runs().next().expect("at least this one");
    assert_eq!(units, Units::run(run.0, run.1));
    if run.0 + run.1 != next {
        assert_eq!(known.grain, Grain::Units { next: unit + run.1, run: run.1, at: since }, "for the next time");
    }
    run
}

#[test]
fn a_program_that_goes_on_in_a_block_gets_as_much_as_fits_beside_the_others() {
    // A sixth of the limit is 21 units.
    assert_eq!(chosen(4, (4, 2), 0), (4, 4), "twice as much");
    assert_eq!(chosen(4, (4, 2), 21), (4, 4));
    assert_eq!(chosen(4, (4, 2), 22), (4, 2), "as much as before");
    assert_eq!(chosen(6, (6, 2), 0), (6, 2), "four would not be aligned");
    assert_eq!(chosen(8, (8, 4), 128), (8, 4));
    assert_eq!(chosen(8, (8, 4), 129), (8, 2), "half as much: the limit has gone round");
    assert_eq!(chosen(9, (8, 4), 0), (9, 1), "it does not go on");
    assert_eq!(chosen(62, (62, 4), 30), (62, 2), "up to the end of the block");
    assert_eq!(chosen(5, (8, 4), 0), (5, 3), "the rest of the last run, which was locked meanwhile");
}

/// In the state of a block that was unlocked in units.
fn in_parts(known: &mut GuardBlock) {
    known.grain = Grain::Units { next: 4, run: 2, at: 0 };
}

#[test]
fn a_fault_on_what_is_there_or_was_verified_ahead_changes_nothing_about_the_block() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let world = World::new(wide(), &counts, &reported);
    let mut known = world.guard.table.lock(BlockIndex(0));
    known.state = BlockState::Used;
    known.unlocked = Units::run(9, 3);
    known.pre_verified = Units::run(0, 4) | Units::run(20, 5);
    for (unit, units) in
        [(10, Units::run(10, 1)), (0, Units::run(0, 4)), (3, Units::run(0, 4)), (22, Units::run(20, 5))]
    {
        assert_eq!(world.guard.choose(&mut known, unit, AccessPattern::Unknown), units);
        assert_eq!(known.grain, Grain::NEW, "no return");
    }
}

#[test]
fn of_a_block_in_parts_a_system_call_gets_what_it_uses_and_nothing_else() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::watching(in_units(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    (0..10).for_each(|_| world.lock_all_but(24));
    for whole in [true, false] {
        let known = |world: &World<'_>| world.guard.table.lock(BlockIndex(0)).unlocked;
        assert_eq!(known(&world), Units::NONE);
        if !whole {
            in_parts(&mut world.guard.table.lock(BlockIndex(0)));
        }
        let span = PageSpan { first: PageIndex(2), count: NonZero::new(3).unwrap() };
        assert_eq!(world.guard.hold(span, at(world.time)), FaultOutcome::GoesOn);
        assert_eq!(known(&world), if whole { Units::run(0, 8) } else { Units::run(2, 3) });
        world.guard.release(span);
        world.time += 20_000;
        world.lock_all_but(24);
        world.lock_all_but(40);
    }
}

#[test]
fn writes_to_what_a_system_call_uses_do_not_stop_and_those_to_its_neighbours_still_do() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::watching(in_units(), &counts, &reported);
    world.write(0, &PageData::from_seed(0));
    // Written memory is not watched until it was unlocked some times.
    for round in 0..12 {
        world.lock_all_but(24);
        world.lock_all_but([40, 48][round % 2]);
        for page in 0..8 {
            world.read(page);
        }
    }
    assert!((0..8).all(|page| world.guard.engine().is_watched(page)));
    in_parts(&mut world.guard.table.lock(BlockIndex(0)));
    let span = PageSpan { first: PageIndex(2), count: NonZero::new(3).unwrap() };
    assert!(!world.guard.hold_unlocked(span), "its writes would stop");
    assert_eq!(world.guard.hold(span, at(world.time)), FaultOutcome::GoesOn);
    assert!((0..8).all(|page| world.guard.engine().is_watched(page) != (2..5).contains(&page)));
    assert_eq!(world.guard.table.lock(BlockIndex(0)).watched, Units::run(0, 2) | Units::run(5, 3));
    assert!(world.guard.hold_unlocked(span));
}

#[test]
fn blocks_that_the_program_maps_by_itself_leave_in_runs_around_those_that_have_left() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let world = World::new(settings(), &counts, &reported);
    let span = |first, count| PageSpan { first: PageIndex(first), count: NonZero::new(count).unwrap() };
    let left = |world: &World<'_>| std::mem::take(&mut *world.guard.engine().left.lock().unwrap());
    assert_eq!(world.guard.leave(span(10, 1), at(0)), FaultOutcome::GoesOn);
    assert_eq!(left(&world), [(8, 4)]);
    // Blocks 1 to 4, of which block 2 has left.
    assert_eq!(world.guard.leave(span(7, 10), at(0)), FaultOutcome::GoesOn);
    assert_eq!(left(&world), [(4, 4), (12, 8)]);
    assert_eq!(world.guard.leave(span(4, 16), at(0)), FaultOutcome::GoesOn);
    assert_eq!(left(&world), []);
    assert!(!world.guard.take_back(span(4, 15)), "not whole blocks");
    assert!(world.guard.take_back(span(4, 16)));
    assert_eq!(counts.get(Counter::Pages), 0);
}

/// 64 pages in 16 units: a twentieth is less than the fewest, which are four blocks.
#[test]
fn of_a_small_heap_the_fewest_may_be_unlocked_and_not_all_that_was_asked_for() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let settings = GuardSettings { cap: Bytes::new(PAGES * 4096), ..settings() };
    let mut world = World::new(settings, &counts, &reported);
    for page in 0..PAGES {
        world.read(page);
    }
    assert_eq!(world.guard.unlocked_queue().cap(), 4);
    world.keep();
    assert_eq!(counts.get(Counter::Unlocked), 16);
}

#[test]
fn only_blocks_in_which_a_stride_goes_on_are_gathered_for_the_next_round() {
    let gathered = |state, pattern, unit, unlocked| {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let world = World::new(in_units(), &counts, &reported);
        for block in (0..8).map(BlockIndex) {
            let mut known = world.guard.table.lock(block);
            in_parts(&mut known);
            (known.state, known.unlocked) = (state, unlocked);
            world.guard.choose_and_gather(&mut known, block, unit, pattern);
        }
        std::iter::from_fn(|| world.guard.prefetch_queue().next_later()).count()
    };
    use AccessPattern::{Sequential, Strided, Unknown};
    assert_eq!(gathered(BlockState::Used, Strided, 4, Units::NONE), 8, "a group");
    assert_eq!(gathered(BlockState::Used, Strided, 5, Units::NONE), 0, "it does not go on");
    assert_eq!(gathered(BlockState::Used, Strided, 4, Units::run(0, 8)), 0, "it was there already");
    assert_eq!(gathered(BlockState::Excluded, Strided, 4, Units::NONE), 0);
    for pattern in [Unknown, Sequential { up: true }] {
        assert_eq!(gathered(BlockState::Used, pattern, 4, Units::NONE), 0, "{pattern:?}");
    }
}

/// Of 16 units, three fifths are 9.
#[test]
fn the_next_round_is_prepared_where_it_fits_beside_what_was_unlocked_since() {
    for (since, next, unlocked) in [(9, 4, Units::run(4, 2)), (10, 4, Units::NONE), (0, 8, Units::NONE)] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(in_units(), &counts, &reported);
        (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
        world.keep();
        let at_unit = world.guard.unlocked_queue().ever() - since;
        let known = || world.guard.table.lock(BlockIndex(0));
        assert_eq!(known().unlocked, Units::NONE);
        known().grain = Grain::Units { next, run: 2, at: at_unit };
        let next_of = PrefetchRequest::Unlock(BlockPart::NextOf(BlockIndex(0)));
        world.guard.prepare(next_of, at(world.time));
        assert_eq!(known().unlocked, unlocked, "{since} since");
        assert_eq!(counts.get(Counter::Prefetched), u64::from(!unlocked.is_empty()));
    }
}

#[test]
fn of_the_block_whose_next_units_are_prepared_all_but_the_last_ones_are_left_behind() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(in_units(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    let mut queue = world.guard.unlocked_queue();
    while queue.oldest().is_some() {}
    let entry = |block, first| UnlockedUnits { block: BlockIndex(block), units: Units::run(first, 2) };
    // Long ago, so that they meet no ghost.
    (0..40).for_each(|_| {
        queue.prefetched(entry(3, 0), at(1));
        queue.oldest();
    });
    [entry(5, 0), entry(0, 0), entry(0, 2), entry(0, 4)].into_iter().for_each(|entry| queue.prefetched(entry, at(1)));
    let ever = queue.ever();
    drop(queue);
    world.guard.table.lock(BlockIndex(0)).grain = Grain::Units { next: 6, run: 2, at: ever };
    world.guard.prepare(PrefetchRequest::Unlock(BlockPart::NextOf(BlockIndex(0))), at(world.time));
    let mut queue = world.guard.unlocked_queue();
    let first: Vec<_> = std::iter::from_fn(|| queue.oldest()).take(4).collect();
    assert_eq!(first, [entry(0, 2), entry(0, 0), entry(5, 0), entry(0, 4)]);
}

#[test]
fn nothing_is_prefetched_that_is_there_already_or_that_the_program_is_not_before_any_more() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    let whole = |block| PrefetchRequest::Unlock(BlockPart::Block(BlockIndex(block)));
    world.guard.prepare(whole(1), at(world.time));
    assert_eq!(counts.get(Counter::Prefetched), 0, "it is unlocked");
    lock_page_5(&mut world, 0);
    world.guard.prefetch_queue().soon([whole(1)].into_iter());
    assert_eq!(world.guard.keep(at(world.time)), Some(Duration::ZERO));
    assert_eq!((counts.get(Counter::Prefetched), world.guard.prefetch_queue().is_empty()), (0, true));
    world.guard.prepare(whole(1), at(world.time));
    assert_eq!(counts.get(Counter::Prefetched), 1);
}
