//! The guard over a test's fake memory.

mod access_patterns;
mod entry_points;
mod fake_clock;
mod fake_engine;
mod frames;
mod parts_of_blocks;
mod stuck_cells;
mod time;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use rampart_codes::{CorrectionOutcome, PageBits, PageData, Scheme};
use rampart_memory::{Bytes, Frame, Timestamp};

use crate::engine::{EngineRefusal, GuardEngine};
use crate::policy::prefetch::streams::Prefetcher;
use crate::policy::prefetch::{AccessPattern, BlockPart, PrefetchRequest};
use crate::settings::pages::{GuardSettings, OnError};
use crate::state::layout::{BlockIndex, Layout, PageIndex, PageSpan};
use crate::state::table::Grain;
use crate::state::units::Units;
use crate::telemetry::accesses::{Touch, UnlockAccess};
use crate::telemetry::counts::{Counter, GuardCounts};
use crate::telemetry::observer::{GuardObserver, Trouble};
use crate::transitions::replace::{Replacement, ReplacementRound};
use crate::transitions::{FaultOutcome, Guard};

use self::fake_clock::FakeClock;
use self::fake_engine::FakeEngine;

/// Records the reports.
#[derive(Default)]
struct Reported(Mutex<Vec<Trouble>>, Mutex<Vec<UnlockAccess>>);

impl GuardObserver for Reported {
    fn trouble(&self, trouble: &Trouble) {
        self.0.lock().unwrap().push(trouble.clone());
    }

    fn lost(&self, block: BlockIndex, why: &EngineRefusal) {
        panic!("{block:?} is lost: {why}");
    }

    fn unlocked(&self, access: UnlockAccess) {
        self.1.lock().unwrap().push(access);
    }
}

const PAGES: u64 = 64;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn settings() -> GuardSettings {
    GuardSettings { block_pages: 4, unit_pages: 4, cap: Bytes::new(8 * 4096), prefetch: 0, ..GuardSettings::default() }
}

/// A guard, and a program on it whose faulting accesses are repeated.
struct World<'a> {
    guard: Guard<'a, FakeEngine>,
    /// The guard's clock; `time` is passed in.
    clock: &'static FakeClock,
    time: u64,
}

impl<'a> World<'a> {
    fn new(settings: GuardSettings, counts: &'a GuardCounts, reported: &'a Reported) -> Self {
        Self::on(FakeEngine::new(usize::try_from(PAGES).unwrap()), settings, counts, reported)
    }

    /// On an engine that stops writes.
    fn watching(settings: GuardSettings, counts: &'a GuardCounts, reported: &'a Reported) -> Self {
        let mut engine = FakeEngine::new(usize::try_from(PAGES).unwrap());
        engine.watches = true;
        Self::on(engine, settings, counts, reported)
    }

    fn on(engine: FakeEngine, settings: GuardSettings, counts: &'a GuardCounts, reported: &'a Reported) -> Self {
        let layout = Layout::new(Bytes::new(PAGES * 4096), settings.block_pages, settings.unit_pages).unwrap();
        let clock = FakeClock::new();
        clock.tick_by(Duration::from_micros(1));
        Self { guard: Guard::new(Box::new(engine), layout, settings, counts, reported, clock), clock, time: 0 }
    }

    fn fault(&mut self, page: u64) -> FaultOutcome {
        self.fault_to(page, Touch::Read)
    }

    fn fault_to(&mut self, page: u64, touch: Touch) -> FaultOutcome {
        self.time += 10;
        let now = at(self.time);
        self.guard.fault(PageIndex(page), touch, now, || self.guard.goes_on(now))
    }

    fn read(&mut self, page: u64) -> PageData {
        if self.guard.engine().read(page).is_none() {
            assert_eq!(self.fault(page), FaultOutcome::GoesOn);
        }
        self.guard.engine().read(page).expect("it is there after the fault")
    }

    fn write(&mut self, page: u64, data: &PageData) {
        if self.guard.engine().read(page).is_none() {
            assert_eq!(self.fault_to(page, Touch::Write), FaultOutcome::GoesOn);
        }
        if !self.guard.engine().write(page, data.clone()) {
            assert!(self.guard.engine().is_watched(page), "it is there after the fault");
            assert_eq!(self.guard.written(PageIndex(page)), FaultOutcome::GoesOn);
            assert!(self.guard.engine().write(page, data.clone()), "it may be written after that fault");
        }
    }

    /// Runs the maintenance thread until no task is due.
    fn keep(&mut self) {
        self.time += 10;
        while self.guard.keep(at(self.time)) == Some(Duration::ZERO) {}
    }

    /// Locks everything beyond the limit; then the rest, displaced by other blocks.
    fn lock_all_but(&mut self, other: u64) {
        for block in 0..3 {
            self.read((other + 4 * block) % PAGES);
        }
        self.keep();
    }
}

proptest! {
    /// A program finds what it wrote, whatever it reads and writes and whenever the maintenance thread runs.
    #[test]
    fn a_program_finds_what_it_wrote(
        steps in proptest::collection::vec((0_u64..PAGES / 2, 0_u64..100, proptest::option::weighted(0.1, any::<u64>()), any::<bool>()), 1..500),
        scheme in 0..Scheme::ALL.len(), prefetch in 0_u32..5, unit in 0_u32..3, watches in any::<bool>()
    ) {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let settings = GuardSettings { scheme: Scheme::ALL[scheme], prefetch, unit_pages: 1 << unit, ..settings() };
        let world = if watches { World::watching } else { World::new };
        let mut world = world(settings, &counts, &reported);
        let mut model = BTreeMap::new();
        for (page, other, seed, keep) in steps {
            let span = PageSpan::of_page(PageIndex(page));
            match other {
                0 => prop_assert_eq!(world.guard.unlock_all(at(world.time)), FaultOutcome::GoesOn),
                1 => {
                    prop_assert_eq!(world.guard.hold(span, at(world.time)), FaultOutcome::GoesOn);
                    world.keep();
                    world.guard.release(span);
                }
                2 => {
                    prop_assert_eq!(world.guard.zero(span, at(world.time)), FaultOutcome::GoesOn);
                    model.remove(&page);
                }
                3 => {
                    let first = page / 4 * 4;
                    let block = PageSpan { first: PageIndex(first), count: NonZero::new(4).unwrap() };
                    prop_assert!(world.guard.forget(block));
                    model.retain(|page, _| !(first..first + 4).contains(page));
                }
                // Two threads fault on it at once.
                4..10 => prop_assert_eq!(world.fault(page), FaultOutcome::GoesOn),
                _ => {}
            }
            match seed {
                Some(seed) => {
                    world.write(page, &PageData::from_seed(seed));
                    model.insert(page, PageData::from_seed(seed));
                }
                None => prop_assert_eq!(world.read(page), model.get(&page).cloned().unwrap_or(PageData::ZERO)),
            }
            if keep {
                world.keep();
            }
        }
        prop_assert!(reported.0.lock().unwrap().is_empty(), "no memory erred");
        let seen = counts.snapshot();
        prop_assert!(seen.get(Counter::Unlocked) <= seen.get(Counter::Pages) && seen.get(Counter::Pages) <= PAGES);
    }
}

/// Other blocks displace it, in turns, so that it is not still unlocked from the last time.
fn lock_page_5(world: &mut World<'_>, round: u64) {
    world.lock_all_but(20 + 12 * (round % 3));
    assert!(world.guard.engine().is_in_vault(5));
}

#[test]
fn what_is_only_read_keeps_its_codes_and_what_is_written_gets_new_ones() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::watching(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    (0..3).for_each(|round| lock_page_5(&mut world, round));
    let encoded = counts.get(Counter::Encoded);
    for round in 0..20 {
        assert!(world.read(5) == PageData::from_seed(1) && world.guard.engine().is_watched(5));
        lock_page_5(&mut world, round);
    }
    assert!(counts.get(Counter::Encoded) < encoded + 3 * 4 * 2, "but for what was open before");
    assert!(counts.get(Counter::Unwritten) >= 20 * 4);
    world.read(5);
    world.write(5, &PageData::from_seed(2));
    assert!(!world.guard.engine().is_watched(6), "all of the block");
    lock_page_5(&mut world, 20);
    assert!(world.guard.inject(PageIndex(5), &[777]));
    assert!(world.read(5) == PageData::from_seed(2) && !world.guard.engine().is_watched(5), "it was written of late");
    for round in 21..30 {
        lock_page_5(&mut world, round);
        world.read(5);
    }
    assert!(world.guard.engine().is_watched(5), "that is long ago");
    assert_eq!(counts.get(Counter::Corrected), 1);
}

#[test]
fn what_memory_did_to_a_page_while_it_was_unlocked_and_only_read_is_put_right() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::watching(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    lock_page_5(&mut world, 0);
    world.read(5);
    world.guard.engine().decay(5, 4711);
    lock_page_5(&mut world, 1);
    assert!(world.read(5) == PageData::from_seed(1));
    assert_eq!(counts.get(Counter::Corrected), 1);
}

#[test]
fn a_flip_in_a_locked_page_is_corrected_before_the_program_sees_it_and_told_with_its_frame() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    assert!(world.guard.engine().is_in_vault(5));
    assert!(world.guard.inject(PageIndex(5), &[777]));
    assert_eq!(world.read(5), PageData::from_seed(1));
    let reported = reported.0.lock().unwrap();
    assert_eq!((reported.len(), reported[0].page, reported[0].frame), (1, PageIndex(5), Frame::new(0x1005)));
    assert!(matches!(reported[0].outcome, CorrectionOutcome::Corrected(_)));
    assert_eq!((counts.get(Counter::Corrected), counts.get(Counter::Injected)), (1, 1));
}

#[test]
fn a_page_that_the_hardware_gives_up_is_rebuilt_if_it_had_but_a_line_and_is_beyond_correction_else() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(GuardSettings { on_error: OnError::Continue, ..settings() }, &counts, &reported);
    let mut line = PageData::ZERO;
    line.flip(&PageBits::from_iter([5, 511]));
    let pages = [(5, line), (6, PageData::ZERO), (7, PageData::from_seed(7))];
    pages.iter().for_each(|(page, data)| world.write(*page, data));
    world.lock_all_but(20);
    assert!(pages.iter().all(|(page, _)| world.guard.inject_loss(PageIndex(*page))));
    assert!(pages[..2].iter().all(|(page, data)| world.read(*page) == *data));
    assert_eq!(world.read(7), PageData::ZERO);
    let seen = [Counter::Injected, Counter::Corrected, Counter::Uncorrectable].map(|counter| counts.get(counter));
    assert_eq!(seen, [3, 1, 1]);
}

#[test]
fn ten_thousand_flips_in_locked_pages_are_all_corrected() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    // Everything unlocked is locked as soon as the maintenance thread runs.
    let settings =
        GuardSettings { interval: Some(Duration::from_micros(1)), cap: Bytes::new(PAGES * 4096), ..settings() };
    let mut world = World::new(settings, &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    let mut state = 1_u64;
    for _ in 0..10_000 {
        world.keep();
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (page, bit) = ((state >> 33) % PAGES, u32::try_from(state >> 48 & 0x7fff).unwrap());
        assert!(world.guard.inject(PageIndex(page), &[bit]));
        assert_eq!(world.read(page), PageData::from_seed(page));
    }
    let seen = counts.snapshot();
    assert_eq!(
        (seen.get(Counter::Injected), seen.get(Counter::Corrected), seen.get(Counter::Uncorrectable)),
        (10_000, 10_000, 0)
    );
}

#[test]
fn a_page_beyond_correction_stops_the_program_or_is_told_as_wished() {
    for (on_error, served) in [
        (OnError::Stop, FaultOutcome::Stop),
        (OnError::Continue, FaultOutcome::GoesOn),
        (OnError::Checkpoint, FaultOutcome::Stop),
    ] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(GuardSettings { on_error, ..settings() }, &counts, &reported);
        world.write(5, &PageData::from_seed(1));
        world.lock_all_but(20);
        // Two lines: more than P and Q rebuild.
        assert!(world.guard.inject(PageIndex(5), &[1, 513]));
        assert_eq!(world.fault(5), served);
        assert_eq!(reported.0.lock().unwrap()[0].outcome, CorrectionOutcome::Uncorrectable);
        assert_eq!(world.guard.engine().read(5).is_none(), served == FaultOutcome::Stop, "it never saw the page");
        // The saved state is there.
        world.lock_all_but(40);
        assert_eq!(world.guard.unlock_all(at(world.time)), served);
        assert!(world.guard.engine().read(20).is_some() && world.guard.engine().read(40).is_some());
        assert_eq!(world.guard.engine().read(5).is_none(), served == FaultOutcome::Stop);
    }
}

#[test]
fn what_a_device_uses_stays_open_and_is_locked_when_it_is_free() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(0, &PageData::from_seed(9));
    world.guard.engine().pinned.lock().unwrap().insert(1);
    world.read(20);
    world.read(24);
    world.keep();
    assert!(world.guard.engine().read(0).is_some() && counts.get(Counter::Pinned) > 0);
    world.guard.engine().pinned.lock().unwrap().clear();
    world.time += 20_000;
    world.lock_all_but(32);
    assert!(world.guard.engine().is_in_vault(0));
}

#[test]
fn a_fault_between_moving_and_coding_takes_the_block_back_unverified() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(0, &PageData::from_seed(9));
    let block = BlockIndex(0);
    world.guard.engine().lock(world.guard.layout().span(block)).unwrap();
    let mut known = world.guard.table.lock(block);
    (known.unlocked, known.pending) = (Units::NONE, world.guard.layout().all_units());
    drop(known);
    assert_eq!(world.read(0), PageData::from_seed(9));
    assert_eq!((counts.get(Counter::PendingUnlocked), counts.get(Counter::Verified)), (1, 0));
}

#[test]
fn forgotten_blocks_read_as_zeros_and_parts_of_blocks_are_not_forgotten() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    (0..8).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.lock_all_but(20);
    let span = |first, count| PageSpan { first: PageIndex(first), count: NonZero::new(count).unwrap() };
    assert!(!world.guard.forget(span(0, 3)) && !world.guard.forget(span(2, 4)));
    assert_eq!(world.read(0), PageData::from_seed(0));
    assert!(world.guard.forget(span(0, 8)));
    assert!((0..8).all(|page| world.read(page) == PageData::ZERO));
}

#[test]
fn a_page_that_the_program_gave_back_by_itself_is_filled_again() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(0, &PageData::from_seed(9));
    world.guard.engine().discard(PageSpan::of_page(PageIndex(0)));
    assert_eq!(world.read(0), PageData::ZERO);
}

#[test]
fn pages_that_the_program_gives_back_read_as_zeros_wherever_they_are_and_the_rest_stays() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    (0..16).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.lock_all_but(20);
    assert!(world.guard.engine().is_in_vault(3));
    let span = PageSpan { first: PageIndex(3), count: NonZero::new(6).unwrap() };
    assert_eq!(world.guard.zero(span, at(world.time)), FaultOutcome::GoesOn);
    for page in 0..16 {
        let expected = if (3..9).contains(&page) { PageData::ZERO } else { PageData::from_seed(page) };
        assert_eq!(world.read(page), expected, "page {page}");
    }
}

#[test]
fn what_the_program_maps_by_itself_is_never_locked_again() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    assert_eq!(world.guard.leave(PageSpan::of_page(PageIndex(5)), at(world.time)), FaultOutcome::GoesOn);
    world.lock_all_but(40);
    world.lock_all_but(20);
    assert_eq!(world.guard.engine().read(5), Some(PageData::from_seed(1)));
}

/// A guard that forgot the page would take it for zeros, which it is not.
#[test]
fn what_was_left_to_the_program_is_not_forgotten_but_can_be_taken_back() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    (0..8).for_each(|page| world.write(page, &PageData::from_seed(page)));
    let all = PageSpan { first: PageIndex(0), count: NonZero::new(8).unwrap() };
    assert_eq!(world.guard.leave(PageSpan::of_page(PageIndex(5)), at(world.time)), FaultOutcome::GoesOn);
    let used = counts.get(Counter::Pages);
    assert!(!world.guard.forget(all));
    assert_eq!(world.read(5), PageData::from_seed(5));
    assert!(world.guard.take_back(all));
    assert!(counts.get(Counter::Pages) < used && counts.get(Counter::Unlocked) <= counts.get(Counter::Pages));
    (0..8).for_each(|page| world.write(page, &PageData::from_seed(page + 9)));
    world.lock_all_but(20);
    assert!((0..8).all(|page| world.read(page) == PageData::from_seed(page + 9)) && counts.get(Counter::Verified) > 0);
}

#[test]
fn a_sweep_finds_its_blocks_open_or_verified_ahead_of_it() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(
        GuardSettings { prefetch: 4, block_pages: 1, unit_pages: 1, cap: Bytes::new(8 * 4096), ..settings() },
        &counts,
        &reported,
    );
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    let mut unverified = 0;
    for page in 0..40 {
        let before = counts.get(Counter::Verified);
        assert_eq!(world.read(page), PageData::from_seed(page));
        unverified += counts.get(Counter::Verified) - before;
        world.keep();
    }
    assert!(unverified <= 3, "{unverified} pages were verified while it waited");
}

/// Pre-verifies a block that the program is about to use.
fn make_ready(world: &World<'_>, block: u64) {
    world.guard.prefetch_queue().later([PrefetchRequest::Verify(BlockPart::Block(BlockIndex(block)))].into_iter());
    while world.guard.keep(at(world.time)) == Some(Duration::ZERO) {}
}

#[test]
fn what_is_ready_was_verified_counts_as_open_and_is_opened_without_another_look() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    assert!(world.guard.inject(PageIndex(5), &[777]));
    let open = counts.get(Counter::Unlocked);
    make_ready(&world, 1);
    assert!(world.guard.engine().is_in_vault(5) && counts.get(Counter::Corrected) == 1);
    assert!(!world.guard.inject(PageIndex(5), &[777]), "nobody would notice");
    let verified = counts.get(Counter::Verified);
    assert_eq!(world.read(5), PageData::from_seed(1));
    assert_eq!(counts.get(Counter::Verified), verified);
    world.keep();
    assert!(counts.get(Counter::Unlocked) <= open, "something was locked for it");
}

#[test]
fn what_is_ready_and_not_wanted_is_locked_again_with_the_codes_that_it_had() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    make_ready(&world, 1);
    let known = |world: &World<'_>| world.guard.table.lock(BlockIndex(1)).pre_verified;
    assert_eq!(known(&world), world.guard.layout().all_units());
    let encoded = counts.get(Counter::Encoded);
    world.lock_all_but(40);
    assert_eq!(known(&world), Units::NONE);
    assert!(counts.get(Counter::Encoded) <= encoded + 12, "of the others");
    assert!(world.guard.inject(PageIndex(5), &[777]), "it is locked");
    assert_eq!(world.read(5), PageData::from_seed(1));
    make_ready(&world, 2);
    assert!(world.guard.forget(PageSpan { first: PageIndex(4), count: NonZero::new(8).unwrap() }));
    assert!(world.read(5) == PageData::ZERO && counts.get(Counter::Unlocked) <= counts.get(Counter::Pages));
}

#[test]
fn what_is_beyond_correction_is_never_ready() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    assert!(world.guard.inject(PageIndex(5), &[1, 513]));
    make_ready(&world, 1);
    assert_eq!(world.guard.table.lock(BlockIndex(1)).pre_verified, Units::NONE);
    assert_eq!(world.fault(5), FaultOutcome::Stop);
}

/// Blocks of eight units; everything beyond two blocks is locked.
fn in_units() -> GuardSettings {
    GuardSettings { block_pages: 8, unit_pages: 1, cap: Bytes::new(16 * 4096), ..settings() }
}

#[test]
fn a_program_that_comes_back_by_jumps_gets_units_and_one_that_goes_on_more_of_them() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(in_units(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    let mut opened = Vec::new();
    for page in [3, 60, 3, 40, 21, 60, 50, 3, 40, 21, 3, 4, 5, 6, 7] {
        // No stream is seen, only jumps.
        world.guard.prefetcher().clone_from(&Prefetcher::new(world.guard.layout(), 0));
        let before = counts.get(Counter::Unlocked);
        assert_eq!(world.read(page), PageData::from_seed(page));
        opened.push(counts.get(Counter::Unlocked) - before);
        world.keep();
    }
    assert_eq!(
        opened,
        [8, 0, 0, 8, 8, 8, 8, 8, 8, 8, 1, 2, 0, 2, 0],
        "whole blocks, until one is wanted for the third time"
    );
}

#[test]
fn a_block_that_is_cut_counts_as_tested_only_if_it_has_no_page_of_zeros() {
    for (zeros, tested) in [(false, true), (true, false)] {
        let (counts, reported) = (GuardCounts::default(), Reported::default());
        let mut world = World::new(in_units(), &counts, &reported);
        (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
        if zeros {
            world.write(1, &PageData::ZERO);
        }
        world.lock_all_but(40);
        world.lock_all_but(20);
        *world.guard.engine().tested.lock().unwrap() = Some(at(1));
        re_place_all(&world, &mut ReplacementRound::default(), 0);
        let mut known = world.guard.table.lock(BlockIndex(0));
        assert!(known.tested.is_some() && known.grain == Grain::NEW);
        assert_eq!(world.guard.choose(&mut known, 5, AccessPattern::Strided), Units::run(5, 1));
        assert_eq!(known.tested.is_some(), tested);
    }
}

#[test]
fn a_keeper_that_cannot_keep_up_locks_before_it_opens_more() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(in_units(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    assert!(world.guard.unlocked_queue().is_far_over());
    world.guard.prefetch_queue().later([PrefetchRequest::Unlock(BlockPart::Block(BlockIndex(0)))].into_iter());
    while world.guard.unlocked_queue().is_far_over() {
        assert_eq!((world.guard.keep(at(world.time)), counts.get(Counter::Prefetched)), (Some(Duration::ZERO), 0));
    }
    world.keep();
    assert_eq!(counts.get(Counter::Prefetched), 1);
}

#[test]
fn every_unlocking_is_told_with_what_it_was_for() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.write(6, &PageData::from_seed(2));
    world.lock_all_but(20);
    world.guard.unlock_all(at(world.time));
    let accesses = reported.1.lock().unwrap();
    let seen: Vec<_> = accesses.iter().map(|access| (access.page.0, access.pages, access.touch)).collect();
    let [read, write, ahead] = [Touch::Read, Touch::Write, Touch::Prefetch];
    assert_eq!(seen, [(4, 4, write), (20, 4, read), (24, 4, read), (28, 4, read), (4, 4, ahead), (20, 4, ahead)]);
    assert!(accesses.is_sorted_by_key(|access| access.at));
}

#[test]
fn what_is_locked_can_be_verified_without_opening_it() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    world.guard.inject(PageIndex(0), &[0]);
    assert_eq!(world.guard.verify_all(), PAGES - 8);
    assert_eq!(reported.0.lock().unwrap().len(), 1);
    assert!(world.guard.engine().is_in_vault(0));
}

#[test]
fn a_fault_elsewhere_is_none_of_ours() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    assert_eq!(world.fault(PAGES), FaultOutcome::Elsewhere);
}

#[test]
fn what_a_system_call_holds_stays_open_until_it_is_released() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    let held = PageSpan { first: PageIndex(5), count: NonZero::new(6).unwrap() };
    world.write(9, &PageData::ZERO);
    assert!(!world.guard.hold_unlocked(held), "page 5 is locked");
    assert_eq!(world.guard.hold(held, at(world.time)), FaultOutcome::GoesOn);
    assert!(world.guard.hold_unlocked(held));
    world.guard.release(held);
    assert_eq!(world.guard.hold(PageSpan::of_page(PageIndex(5)), at(world.time)), FaultOutcome::GoesOn);
    for others in [32, 44] {
        world.lock_all_but(others);
        assert_eq!(world.guard.engine().read(5), Some(PageData::from_seed(1)), "open, and without a fault");
        assert_eq!(world.guard.engine().read(10), Some(PageData::ZERO));
        world.time += 20_000;
    }
    world.guard.release(PageSpan::of_page(PageIndex(5)));
    world.guard.release(held);
    world.lock_all_but(20);
    world.lock_all_but(48);
    assert!(world.guard.engine().is_in_vault(5), "one that was held is tried again");
}

#[test]
fn no_more_blocks_are_open_than_the_kernel_keeps_apart_however_late_the_keeper_is() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let settings = GuardSettings { block_pages: 1, unit_pages: 1, cap: Bytes::new(4 * 4096), ..settings() };
    let layout = Layout::new(Bytes::new(PAGES * 4096), settings.block_pages, settings.unit_pages).unwrap();
    let mut engine = FakeEngine::new(usize::try_from(PAGES).unwrap());
    engine.most_open = 6;
    let guard = Guard::new(Box::new(engine), layout, settings, &counts, &reported, FakeClock::new());
    for page in 0..PAGES {
        assert_eq!(guard.fault(PageIndex(page), Touch::Read, at(page), || ()), FaultOutcome::GoesOn);
        assert!((0..PAGES).filter(|&page| guard.engine().read(page).is_some()).count() <= 6);
    }
}

#[test]
fn a_fault_on_what_was_left_to_the_program_is_said_to_be_its_own() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.guard.leave(PageSpan::of_page(PageIndex(5)), at(world.time));
    assert_eq!(world.fault(5), FaultOutcome::Left);
    assert_eq!(world.guard.engine().read(5), Some(PageData::from_seed(1)));
}

/// Rounds until nothing is left for re-placement; returns the number of blocks.
fn re_place_all(world: &World<'_>, round: &mut ReplacementRound, seconds: u64) -> usize {
    let now = at(seconds * 1_000_000);
    let replacements = std::iter::from_fn(|| match world.guard.re_place(round, Duration::from_secs(10), now) {
        Replacement::RoundDone | Replacement::NoFrames => None,
        replacement => Some(replacement),
    });
    replacements.filter(|replacement| *replacement == Replacement::RePlaced).count()
}

#[test]
fn locked_blocks_are_put_on_tested_frames_once_a_lifetime_and_keep_their_content() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    let mut round = ReplacementRound::default();
    (0..PAGES).for_each(|page| world.write(page, &PageData::from_seed(page)));
    world.keep();
    let before = world.guard.engine().frame(PageIndex(3));
    assert_eq!(re_place_all(&world, &mut round, 1), 0, "no frames are there");
    *world.guard.engine().tested.lock().unwrap() = Some(at(2_000_000));
    let blocks = usize::try_from(PAGES / 4).unwrap();
    assert_eq!(re_place_all(&world, &mut round, 3), blocks - 2, "all but the two that are open");
    assert_ne!(world.guard.engine().frame(PageIndex(3)), before);
    assert_eq!(re_place_all(&world, &mut round, 11), 0, "a test is good for ten seconds");
    assert_eq!(re_place_all(&world, &mut round, 12), blocks - 2);
    (0..PAGES).for_each(|page| assert_eq!(world.read(page), PageData::from_seed(page)));
    assert_eq!(counts.snapshot().get(Counter::RePlaced), 2 * (PAGES - 8));
}

#[test]
fn what_memory_did_before_a_re_placement_is_put_right_and_reported_with_the_frame_that_did_it() {
    let (counts, reported) = (GuardCounts::default(), Reported::default());
    let mut world = World::new(settings(), &counts, &reported);
    world.write(5, &PageData::from_seed(1));
    world.lock_all_but(20);
    let before = world.guard.engine().frame(PageIndex(5));
    assert!(world.guard.inject(PageIndex(5), &[777]));
    *world.guard.engine().tested.lock().unwrap() = Some(at(1));
    re_place_all(&world, &mut ReplacementRound::default(), 0);
    assert_eq!(reported.0.lock().unwrap().iter().map(|trouble| trouble.frame).collect::<Vec<_>>(), [before]);
    assert_ne!(world.guard.engine().frame(PageIndex(5)), before);
    assert_eq!(world.read(5), PageData::from_seed(1));
}
