//! What the guard's threads, and whoever begins a guard, ask of it.

use super::*;

#[test]
fn threads_are_woken_once_their_memory_is_there_and_never_before_it() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    let woken = |world: &World<'_>| std::mem::take(&mut *world.guard.engine().woken.lock().unwrap());
    let fault = |world: &World<'_>| {
        let before = || assert_eq!(woken(world), [], "it may take the CPU from this thread");
        world.guard.fault(PageIndex(5), Touch::Read, at(world.time), before)
    };
    assert_eq!((fault(&world), woken(&world)), (FaultOutcome::GoesOn, vec![(4, 4)]), "its first use");
    assert_eq!(world.guard.engine().read(5), Some(PageData::ZERO));
    lock_page_5(&mut world, 0);
    woken(&world);
    assert_eq!((fault(&world), woken(&world)), (FaultOutcome::GoesOn, vec![(4, 4)]), "it was locked");
    // Another thread unlocked it meanwhile: the engine settles that, and wakes.
    let settled = |world: &World<'_>| world.guard.fault(PageIndex(5), Touch::Read, at(world.time), || ());
    assert_eq!((settled(&world), woken(&world)), (FaultOutcome::GoesOn, vec![(5, 1)]));
    lock_page_5(&mut world, 1);
    assert!(world.guard.inject(PageIndex(5), &[1, 513]));
    woken(&world);
    assert_eq!((fault(&world), woken(&world)), (FaultOutcome::Stop, vec![]), "beyond correction: it waits");
    // Before a fork, nobody waits for an answer to a fault of its own.
    assert_eq!(world.guard.unlock_all(at(world.time)), FaultOutcome::Stop);
    assert!(woken(&world).contains(&(20, 4)));
}

#[test]
fn memory_that_is_opened_ahead_wakes_who_waits_for_it() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    let page = PageSpan::of_page(PageIndex(5));
    for round in 0..3 {
        world.guard.engine().woken.lock().unwrap().clear();
        assert_eq!(world.guard.hold(page, at(world.time)), FaultOutcome::GoesOn);
        assert_eq!(*world.guard.engine().woken.lock().unwrap(), [(4, 4)], "{round}");
        world.guard.release(page);
        lock_page_5(&mut world, round);
    }
}

#[test]
fn the_maintenance_thread_is_busy_while_something_is_due() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let settings = GuardSettings { interval: Some(Duration::from_millis(1)), ..settings() };
    let mut world = World::new(settings, &counts, &reported);
    assert!(!world.guard.is_busy(at(0)), "nothing was used yet");
    [0, 4].into_iter().for_each(|page| world.write(page, &PageData::from_seed(page)));
    assert!(!world.guard.is_busy(at(world.time)), "two blocks may be unlocked");
    assert!(world.guard.is_busy(at(world.time + 1_000)), "for a millisecond");
    world.read(8);
    assert!(world.guard.is_busy(at(world.time)), "three blocks may not");
    world.keep();
    assert!(!world.guard.is_busy(at(world.time)));
    assert_eq!(world.guard.keep(at(world.time)), Some(Duration::from_micros(980)), "until the next one is too old");
    world.guard.prefetch_queue().later([PrefetchRequest::Unlock(BlockPart::Block(BlockIndex(0)))].into_iter());
    assert!(world.guard.is_busy(at(world.time)), "a prefetch was requested");
}

/// A program ran before its guard began.
#[test]
fn memory_that_was_in_use_before_the_guard_is_adopted_as_it_is_and_locked_like_any_other() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    let (block, left) = (world.guard.layout().span(BlockIndex(1)), world.guard.layout().span(BlockIndex(2)));
    [block, left].into_iter().for_each(|span| assert!(world.guard.engine().fill(span).is_ok()));
    [5, 8].into_iter().for_each(|page| assert!(world.guard.engine().write(page, PageData::from_seed(page))));
    assert_eq!(world.guard.used_pages(), 0);
    let seen = || [Counter::Pages, Counter::Unlocked, Counter::MostPages].map(|counter| counts.get(counter));
    // Twice: the second time it is no longer untouched.
    for _ in 0..2 {
        world.guard.adopt(BlockIndex(1), at(world.time));
        assert_eq!((seen(), world.guard.unlocked_queue().count()), ([4, 4, 4], 1));
        assert_eq!(world.guard.used_pages(), 8, "up to the last one");
    }
    for _ in 0..2 {
        world.guard.adopt_left(PageSpan { first: PageIndex(7), count: NonZero::new(2).unwrap() });
        assert_eq!((seen(), world.guard.unlocked_queue().count()), ([8, 8, 8], 1), "it is not to be locked");
    }
    world.lock_all_but(20);
    assert!(world.guard.engine().is_in_vault(5));
    assert_eq!(world.fault(8), FaultOutcome::Left);
    assert!(world.guard.engine().read(8) == Some(PageData::from_seed(8)));
    world.guard.adopt(BlockIndex(1), at(world.time));
    assert!(world.guard.inject(PageIndex(5), &[777]), "what is locked stays so");
    assert!(world.read(5) == PageData::from_seed(5));
}

#[test]
fn the_settings_say_what_happens_after_an_error() {
    for (_, on_error) in OnError::ALL {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        assert_eq!(World::new(GuardSettings { on_error, ..settings() }, &counts, &reported).guard.on_error(), on_error);
    }
}
