//! Durations: their counts, and their effects.

use super::*;

#[test]
fn time_averages_are_of_what_was_open_and_in_use() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    world.time += 1_000_000;
    world.keep();
    let share = counts.snapshot().locked_share().unwrap();
    assert!((share - (1.0 - 8.0 / 64.0)).abs() < 0.01, "two blocks of 16 are open: {share}");
}

/// The time of faults determines the unlocked limit, and only the clock that is passed in measures it.
#[test]
fn a_program_whose_faults_take_long_by_the_clock_gets_more_room_and_no_other() {
    for (tick, grows) in [(Duration::from_nanos(100), false), (Duration::from_millis(5), true)] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(GuardSettings { overhead: Some(20), ..settings() }, &counts, &reported);
        world.clock.tick_by(tick);
        for page in (0..4 * PAGES).step_by(4) {
            world.read(page % PAGES);
            world.time += 20_000;
            world.keep();
        }
        assert_eq!(counts.get(Counter::LimitRaised) > 0, grows, "{tick:?} from one reading to the next");
        let (faults, served) = (counts.get(Counter::Faults), counts.get(Counter::ServeNanos));
        assert!(u128::from(served) >= u128::from(faults) * tick.as_nanos(), "{served} ns for {faults} faults");
    }
}

#[test]
fn an_interrupt_counts_for_a_tenth_of_a_millisecond_at_most() {
    for (tick, counted) in [(Duration::from_micros(7), 7_000), (Duration::from_secs(1), 100_000)] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(settings(), &counts, &reported);
        world.clock.tick_by(tick);
        world.lock_all_but(0);
        let locked = counts.get(Counter::Locked);
        assert_eq!((locked, counts.get(Counter::InterruptNanos)), (1, counted), "{tick:?}");
    }
}

#[test]
fn a_program_is_interrupted_where_something_is_locked_or_opened_ahead_of_it() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    (0..4).for_each(|block| world.write(4 * block, &PageData::from_seed(block)));
    assert_eq!(counts.get(Counter::InterruptNanos), 0, "what is opened for a program that waits is waited for");
    world.keep();
    let locked = (counts.get(Counter::Locked), counts.get(Counter::InterruptNanos));
    assert!(locked.0 > 0 && (1..=locked.0 * 100_000).contains(&locked.1), "{locked:?}");
    world.keep();
    assert_eq!((counts.get(Counter::Locked), counts.get(Counter::InterruptNanos)), locked, "nothing was due");
    let before = counts.get(Counter::InterruptNanos);
    world.guard.prepare(PrefetchRequest::Unlock(BlockPart::Block(BlockIndex(0))), at(world.time));
    assert!(counts.get(Counter::InterruptNanos) > before, "opened ahead");
}

/// The clock stands still but for the first write to a page that was only read.
#[test]
fn what_a_program_waits_for_is_overhead_also_before_it_may_write() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::watching(settings(), &counts, &reported);
    world.clock.tick_by(Duration::ZERO);
    world.write(5, &PageData::from_seed(1));
    // A written page is not watched until it was unlocked some times.
    for round in 0..10 {
        lock_page_5(&mut world, round);
        world.read(5);
    }
    assert!(world.guard.engine().is_watched(5));
    world.clock.tick_by(Duration::from_millis(3));
    assert_eq!(world.guard.written(PageIndex(5)), FaultOutcome::GoesOn);
    let after = world.guard.sample(at(33_000)).counts;
    assert_eq!(after.overhead(), Some(0.1), "3 of 33 ms");
}

/// Two programs that wait an eighth of their time: one jumps, the other goes on in each of its blocks in turn. No
/// stream is seen in either.
#[test]
fn a_program_that_jumps_gets_more_room_and_one_that_goes_on_in_its_blocks_does_not() {
    for jumps in [true, false] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(in_units(), &counts, &reported);
        (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
        world.keep();
        for round in 0..300 {
            // At first it uses whole blocks, to which it returns by jumps.
            world.clock.tick_by(Duration::from_micros(if round < 8 { 1 } else { 30 }));
            for block in 0..8 {
                let unit = if jumps { (5 * round + 3 * block) % 8 } else { round % 8 };
                let page = 8 * block + unit;
                world.guard.prefetcher().clone_from(&Prefetcher::new(world.guard.layout(), 0));
                if world.guard.engine().read(page).is_none() {
                    assert_eq!(world.fault(page), FaultOutcome::GoesOn);
                    world.time += 1000;
                }
                world.keep();
            }
        }
        assert_eq!(counts.get(Counter::LimitRaised) > 0, jumps, "{} faults", counts.get(Counter::Faults));
    }
}
