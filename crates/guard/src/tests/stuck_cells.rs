//! Memory that stays wrong, and pages that do not move.

use super::*;

/// All readers of a locked page above a stuck cell: the program; or the guard, before the program, before a fork, for a
/// system call, at a re-placement, and at the end.
#[test]
fn a_page_over_a_stuck_cell_goes_to_a_frame_that_holds_it_and_the_program_never_reads_the_cell() {
    type Way = fn(&mut World<'_>);
    let ways: [(&str, Way); 9] = [
        ("a fault", |_| ()),
        ("opened ahead", |world| {
            world.guard.prepare(PrefetchRequest::Unlock(BlockPart::Block(BlockIndex(1))), at(world.time));
        }),
        ("made ready", |world| {
            world.guard.prepare(PrefetchRequest::Verify(BlockPart::Block(BlockIndex(1))), at(world.time));
        }),
        ("before a fork", |world| assert_eq!(world.guard.unlock_all(at(world.time)), FaultOutcome::GoesOn)),
        ("a system call", |world| {
            assert_eq!(world.guard.hold(PageSpan::of_page(PageIndex(5)), at(world.time)), FaultOutcome::GoesOn);
            world.guard.release(PageSpan::of_page(PageIndex(5)));
        }),
        ("left to the program", |world| {
            assert_eq!(world.guard.leave(PageSpan::of_page(PageIndex(5)), at(world.time)), FaultOutcome::GoesOn);
        }),
        ("a neighbour is given back", |world| {
            assert_eq!(world.guard.zero(PageSpan::of_page(PageIndex(6)), at(world.time)), FaultOutcome::GoesOn);
            world.read(6);
        }),
        ("tested frames", |world| {
            *world.guard.engine().tested.lock().unwrap() = Some(at(1));
            let re_placed =
                world.guard.re_place(&mut ReplacementRound::default(), Duration::from_secs(1), at(world.time));
            assert_eq!(re_placed, Replacement::RePlaced);
        }),
        ("the end", |world| assert!(world.guard.verify_all() > 0)),
    ];
    for (way, watches) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let new = if watches { World::watching } else { World::new };
        let mut world = new(settings(), &counts, &reported);
        world.write(5, &PageData::ZERO);
        lock_page_5(&mut world, 0);
        world.guard.engine().stick(5, 777);
        way.1(&mut world);
        assert!(world.read(5) == PageData::ZERO, "{}, {watches}: it reads the cell", way.0);
        // A page that was unlocked for a read keeps its codes, which verify it the next time.
        if way.0 != "left to the program" {
            lock_page_5(&mut world, 1);
        }
        assert!(world.read(5) == PageData::ZERO, "{}, {watches}: it reads the cell later", way.0);
        let corrected = reported
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|reported| matches!(reported.outcome, CorrectionOutcome::Corrected(_)))
            .count();
        assert_eq!((corrected, counts.get(Counter::Corrected)), (1, 1), "{}, {watches}", way.0);
        assert_eq!(reported.0.lock().unwrap()[0].frame, Frame::new(0x1005), "the frame that erred is reported");
        assert_eq!(world.guard.engine().tested_frames.lock().unwrap()[0], 0x1005, "and tested");
    }
}

/// The page's new frames may be bad too: after eight of them the guard gives up.
#[test]
fn a_page_is_put_on_eight_frames_at_most_and_beyond_correction_if_none_holds_it() {
    for (bad, served) in [(7, FaultOutcome::GoesOn), (8, FaultOutcome::Stop)] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(settings(), &counts, &reported);
        world.write(5, &PageData::ZERO);
        world.lock_all_but(20);
        let frames = (0..=bad).map(|turn| 0x1005 + turn * fake_engine::SECOND_FRAMES);
        world.guard.engine().stuck.lock().unwrap().extend(frames.map(|frame| (frame, (777, u32::MAX))));
        assert_eq!(world.fault(5), served);
        assert_eq!(world.guard.engine().tested_frames.lock().unwrap().len(), 8, "each that erred is tested");
        if served == FaultOutcome::GoesOn {
            assert!(world.read(5) == PageData::ZERO);
        } else {
            assert!(world.guard.engine().read(5).is_none(), "the program never saw it");
        }
        let reported = reported.0.lock().unwrap();
        assert_eq!(
            (reported.len(), reported[0].outcome == CorrectionOutcome::Uncorrectable),
            (1, served == FaultOutcome::Stop)
        );
    }
}

#[test]
fn a_page_that_is_wrong_once_and_right_when_it_is_read_again_is_reported_and_leaves_its_frame() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    let stuck = (0..32768).find(|bit| PageData::from_seed(1).lines[bit / 512].0[bit / 64 % 8] >> (bit % 64) & 1 == 0);
    world.guard.engine().stuck.lock().unwrap().insert(0x1005, (stuck.unwrap(), 1));
    assert!(world.read(5) == PageData::from_seed(1));
    let reported = reported.0.lock().unwrap();
    assert_eq!(
        (reported.len(), &reported[0].outcome, reported[0].frame),
        (1, &CorrectionOutcome::Intact, Frame::new(0x1005))
    );
    assert_eq!([Counter::Transient, Counter::Corrected].map(|counter| counts.get(counter)), [1, 0]);
    assert_eq!(*world.guard.engine().tested_frames.lock().unwrap(), [0x1005]);
}

/// Two lines: more than P and Q rebuild. One of two reads finds one of them right.
#[test]
fn a_page_that_does_not_read_the_same_each_time_is_corrected_by_a_read_that_can_be() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::ZERO);
    world.lock_all_but(20);
    assert!(world.guard.inject(PageIndex(5), &[1]));
    // Once at the verification, once at the read for the correction.
    world.guard.engine().stuck.lock().unwrap().insert(0x1005, (777, 2));
    assert!(world.read(5) == PageData::ZERO);
    assert_eq!([Counter::Corrected, Counter::Uncorrectable].map(|counter| counts.get(counter)), [1, 0]);
}

#[test]
fn a_page_beyond_correction_is_reported_once_until_it_is_written() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(GuardSettings { on_error: OnError::Continue, ..settings() }, &counts, &reported);
    let err = |world: &mut World<'_>, round| {
        lock_page_5(world, round);
        assert!(world.guard.inject(PageIndex(5), &[1, 513]));
        world.guard.prepare(PrefetchRequest::Verify(BlockPart::Block(BlockIndex(1))), at(world.time));
        world.guard.re_place(&mut ReplacementRound::default(), Duration::from_secs(1), at(world.time));
        world.guard.verify_all();
        assert_eq!(world.fault(5), FaultOutcome::GoesOn);
    };
    world.write(5, &PageData::from_seed(1));
    err(&mut world, 0);
    assert_eq!((reported.0.lock().unwrap().len(), counts.get(Counter::Uncorrectable)), (1, 1));
    world.write(5, &PageData::from_seed(2));
    err(&mut world, 1);
    assert_eq!(
        (reported.0.lock().unwrap().len(), counts.get(Counter::Uncorrectable)),
        (2, 2),
        "another error is reported"
    );
}

/// Together with an error that comes later, in another line, an error of the new frame would be more than P and Q
/// rebuild.
#[test]
fn a_page_is_verified_on_the_tested_frame_that_it_moved_to_before_another_error_comes() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::ZERO);
    lock_page_5(&mut world, 0);
    *world.guard.engine().tested.lock().unwrap() = Some(at(1));
    let second = 0x1005 + fake_engine::SECOND_FRAMES;
    world.guard.engine().stuck.lock().unwrap().insert(second, (777, u32::MAX));
    let re_placed = world.guard.re_place(&mut ReplacementRound::default(), Duration::from_secs(1), at(world.time));
    assert_eq!(re_placed, Replacement::RePlaced);
    let frames: Vec<_> = reported.0.lock().unwrap().iter().map(|reported| reported.frame).collect();
    assert_eq!(frames, [Frame::new(second)], "the new frame erred, and is reported at once");
    assert!(world.guard.inject(PageIndex(5), &[1]));
    assert!(world.read(5) == PageData::ZERO, "it would be beyond correction");
    assert_eq!([Counter::Corrected, Counter::Uncorrectable].map(|counter| counts.get(counter)), [2, 0]);
}

/// In a minute, with a hundred attempts per second before.
#[test]
fn a_block_that_cannot_be_locked_is_tried_less_and_less_often_and_still_locked_when_it_can() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(0, &PageData::from_seed(9));
    world.guard.engine().pinned.lock().unwrap().insert(1);
    let minute = |world: &mut World<'_>| {
        for step in 0..6000 {
            // Others are used in turns, so that a task is always due.
            world.read(8 + 4 * (step % 8));
            world.time += 10_000;
            world.keep();
        }
    };
    minute(&mut world);
    let tried = counts.get(Counter::Pinned);
    assert!((10..20).contains(&tried), "{tried} times");
    world.guard.engine().pinned.lock().unwrap().clear();
    minute(&mut world);
    assert!(world.guard.engine().is_in_vault(0));
    world.guard.engine().pinned.lock().unwrap().insert(1);
    world.read(0);
    for step in 0..100 {
        world.read(8 + 4 * (step % 8));
        world.time += 10_000;
        world.keep();
    }
    assert!(counts.get(Counter::Pinned) > tried + 3, "it is tried soon again once it could be locked");
}

#[test]
fn a_block_that_does_not_move_to_tested_frames_is_tried_less_and_less_often_and_moved_when_it_can() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    *world.guard.engine().tested.lock().unwrap() = Some(at(1));
    *world.guard.engine().refuses.lock().unwrap() = true;
    let lifetime = Duration::from_secs(3600);
    let minute = |world: &mut World<'_>| {
        for _ in 0..6000 {
            world.time += 10_000;
            world.guard.re_place(&mut ReplacementRound::default(), lifetime, at(world.time));
        }
    };
    minute(&mut world);
    let tried = counts.get(Counter::Refused);
    // Two blocks are locked.
    assert!((16..24).contains(&tried), "{tried} times");
    *world.guard.engine().refuses.lock().unwrap() = false;
    (0..3).for_each(|_| minute(&mut world));
    assert!(counts.get(Counter::RePlaced) >= 4 && counts.get(Counter::Refused) == tried);
}
