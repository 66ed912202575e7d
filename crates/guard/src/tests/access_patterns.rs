//! Whole programs by their access patterns, simulated: their waits, and how much of their memory is locked.
//!
//! Time is simulated too. The maintenance thread has its own CPU and works while the program computes; a fault stops
//! the program until it is served. The costs of moves and codes are about those of a machine with two CPUs of 2024, so
//! these tests show a policy's effects, and are no measurement.

use std::sync::Mutex;
use std::time::Duration;

use rampart_codes::{PageData, Pages, Scheme};
use rampart_memory::{Bytes, Frame, Timestamp};

use crate::engine::{EngineRefusal, FrameHistory, GuardEngine};
use crate::settings::pages::GuardSettings;
use crate::state::layout::{BlockIndex, Layout, PageIndex, PageSpan};
use crate::telemetry::accesses::{Touch, UnlockAccess};
use crate::telemetry::counts::{Counter, GuardCounts};
use crate::telemetry::observer::{GuardObserver, Trouble};
use crate::transitions::{FaultOutcome, Guard};

use super::fake_clock::FakeClock;

const BLOCK: u64 = 512;
const UNIT: u64 = 16;

/// The time to serve a fault or to do one task, and for each verified or encoded page, in nanoseconds.
const FAULT: u64 = 15_000;
const STEP: u64 = 20_000;
const PAGE: u64 = 270;

/// A move of pages, in nanoseconds. Of a fault, the guard can measure only this and the codes: the rest passes before
/// it gets the fault, and after its answer.
const MOVE: u64 = 9_000;

/// Zeroed memory that records where each page is.
struct Zeros {
    /// Pages that the program has.
    there: Mutex<Vec<bool>>,
    looked_at: Mutex<Vec<PageData>>,
    /// The guard's clock, which advances by the time of moves and codes.
    clock: &'static FakeClock,
}

impl Zeros {
    fn set(&self, span: PageSpan, there: bool) {
        self.clock.advance(MOVE);
        let first = usize::try_from(span.first.0).unwrap();
        self.there.lock().unwrap()[first..first + usize::try_from(span.count.get()).unwrap()].fill(there);
    }
}

impl GuardEngine for Zeros {
    fn unlock(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        self.set(span, true);
        Ok(())
    }

    fn lock(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.set(span, false);
        Ok(FrameHistory::Same)
    }

    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        self.set(span, true);
        Ok(FrameHistory::Untested)
    }

    fn discard(&self, span: PageSpan) {
        self.set(span, false);
    }

    fn wake(&self, _: PageSpan) {}

    fn with_vault(&self, span: PageSpan, look: &mut dyn FnMut(&mut Pages<'_>)) {
        self.clock.advance(span.count.get() * PAGE);
        let pages = usize::try_from(span.count.get()).unwrap();
        look(&mut Pages::from(&mut self.looked_at.lock().unwrap()[..pages]));
    }

    fn replace(&self, page: PageIndex, _: &PageData) -> Result<(), EngineRefusal> {
        panic!("{page:?} is wrong");
    }

    fn flip(&self, _: PageIndex, _: u32) {}

    fn frame(&self, _: PageIndex) -> Option<Frame> {
        None
    }
}

struct Nobody;

impl GuardObserver for Nobody {
    fn trouble(&self, trouble: &Trouble) {
        panic!("{trouble:?}");
    }

    fn lost(&self, block: BlockIndex, why: &EngineRefusal) {
        panic!("{block:?} is lost: {why}");
    }

    fn unlocked(&self, _: UnlockAccess) {}
}

/// The costs of a program.
#[derive(Debug, Default)]
struct Cost {
    /// Its own time, and its waits, in nanoseconds.
    own: u64,
    waited: u64,
    faults: u64,
    /// Pages verified.
    verified: u64,
    /// The sums over time of locked pages, and of pages in use.
    locked: u64,
    used: u64,
}

impl Cost {
    fn overhead(&self) -> f64 {
        self.waited as f64 / self.own as f64
    }

    fn locked(&self) -> f64 {
        self.locked as f64 / self.used as f64
    }
}

/// A program and its guard.
struct Simulated<'a> {
    guard: Guard<'a, Zeros>,
    counts: &'a GuardCounts,
    now: u64,
    maintenance: u64,
}

impl<'a> Simulated<'a> {
    /// All of so many blocks has been used before.
    fn new(blocks: u64, settings: GuardSettings, counts: &'a GuardCounts) -> Self {
        let (pages, clock) = (usize::try_from(blocks * BLOCK).unwrap(), FakeClock::new());
        let engine = Zeros {
            there: Mutex::new(vec![false; pages]),
            looked_at: Mutex::new(vec![PageData::ZERO; usize::try_from(BLOCK).unwrap()]),
            clock,
        };
        let layout = Layout::new(Bytes::new(blocks * BLOCK * 4096), 512, 16).unwrap();
        let mut simulated = Self {
            guard: Guard::new(Box::new(engine), layout, settings, counts, &Nobody, clock),
            counts,
            now: 0,
            maintenance: 0,
        };
        simulated.run((0..blocks).map(|block| (block * BLOCK, 200_000)));
        simulated
    }

    fn micros(nanos: u64) -> Timestamp {
        Timestamp::from_micros(nanos / 1000)
    }

    /// Pages verified or encoded so far.
    fn coded(&self) -> u64 {
        self.counts.get(Counter::Verified) + self.counts.get(Counter::Encoded)
    }

    /// Runs the maintenance thread up to the present.
    fn keep(&mut self) {
        while self.maintenance <= self.now {
            let before = self.coded();
            if self.guard.keep(Self::micros(self.maintenance)) != Some(Duration::ZERO) {
                self.maintenance = self.now + 1;
                return;
            }
            self.maintenance += STEP + (self.coded() - before) * PAGE;
        }
    }

    /// Visits these pages, and computes for so many nanoseconds at each.
    fn run(&mut self, pages: impl IntoIterator<Item = (u64, u64)>) -> Cost {
        let sums = |counts: &GuardCounts| {
            [Counter::Faults, Counter::Verified, Counter::PageMicros, Counter::UnlockedMicros]
                .map(|counter| counts.get(counter))
        };
        let (mut cost, before) = (Cost::default(), sums(self.counts));
        for (page, nanos) in pages {
            self.keep();
            if !self.guard.engine().there.lock().unwrap()[usize::try_from(page).unwrap()] {
                let before = self.coded();
                let began = self.now;
                let guard = &self.guard;
                let served = guard.fault(PageIndex(page), Touch::Write, Self::micros(began), || {
                    guard.goes_on(Self::micros(began + FAULT + (self.coded() - before) * PAGE));
                });
                assert_eq!(served, FaultOutcome::GoesOn);
                self.now += FAULT + (self.coded() - before) * PAGE;
                cost.waited += self.now - began;
            }
            self.now += nanos;
            cost.own += nanos;
        }
        let _ = self.guard.sample(Self::micros(self.now));
        let after = sums(self.counts);
        let [faults, verified, used, open] = std::array::from_fn(|index| after[index] - before[index]);
        Cost { faults, verified, used, locked: used - open, ..cost }
    }
}

fn settings(cap_blocks: u64) -> GuardSettings {
    GuardSettings { cap: Bytes::from_mib(2 * cap_blocks), scheme: Scheme::Crc, ..GuardSettings::default() }
}

/// All pages of some blocks, at so many nanoseconds per page.
fn sweep(blocks: std::ops::Range<u64>, nanos: u64) -> impl Iterator<Item = (u64, u64)> {
    (blocks.start * BLOCK / UNIT..blocks.end * BLOCK / UNIT).map(move |unit| (unit * UNIT, nanos * UNIT))
}

/// [Fiala15, 4.5]: FT along the slowest dimension, in class B. A plane is a block; 8 lines of a plane are in one unit,
/// and each line is visited in 32 pieces.
fn rounds(units: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    units.flat_map(|unit| (0..8 * 32).flat_map(move |_| (0..256).map(move |block| (block * BLOCK + unit * UNIT, 300))))
}

#[test]
fn a_program_that_comes_round_finds_what_is_next_open() {
    let counts = GuardCounts::default();
    // A twentieth of the heap.
    let mut world = Simulated::new(640, settings(32), &counts);
    world.run(rounds(0..2));
    let seen = world.run(rounds(2..32));
    // 7680 units are used.
    assert!(seen.faults < 7680 / 5 && seen.overhead() < 0.06, "{seen:?}, {:.3}", seen.overhead());
    assert!(seen.locked() > 0.945 && seen.verified < 2 * 7680 * UNIT, "{seen:?}, {:.3}", seen.locked());
    // The same after a sweep through everything.
    world.run(sweep(0..256, 800));
    let seen = world.run(rounds(0..32));
    assert!(seen.faults < 8192 / 3 && seen.overhead() < 0.1, "{seen:?}, {:.3}", seen.overhead());
}

#[test]
fn where_two_rounds_do_not_fit_nothing_is_lost_by_preparing_the_next() {
    let counts = GuardCounts::default();
    let mut world = Simulated::new(640, settings(10), &counts);
    world.run(rounds(0..1));
    let seen = world.run(rounds(1..8));
    assert!(seen.overhead() < 1.5, "{seen:?}, {:.3}", seen.overhead());
}

/// CG [Fiala15, 4.5]: two arrays are swept, one twice as fast as the other, and vectors are in constant use.
fn products(times: usize) -> impl Iterator<Item = (u64, u64)> {
    /// 5 GB/s.
    const MOMENT: u64 = 800 * UNIT;
    let product = (0..100 * BLOCK / UNIT).flat_map(|unit| {
        let hot = 300 * BLOCK + unit * 37 % 64 * UNIT;
        [
            (unit * UNIT, MOMENT),
            ((100 * BLOCK + 2 * unit * UNIT), MOMENT),
            (100 * BLOCK + (2 * unit + 1) * UNIT, MOMENT),
            (hot, 100),
        ]
    });
    std::iter::repeat_n(product, times).flatten()
}

#[test]
fn a_program_that_sweeps_and_has_a_hot_set_waits_for_neither() {
    let counts = GuardCounts::default();
    let mut world = Simulated::new(304, settings(15), &counts);
    world.run(products(1));
    let seen = world.run(products(4));
    // Each block of the arrays is verified once per iteration, and the hot ones hardly ever.
    let arrays = 4 * 300 * BLOCK;
    assert!((arrays - arrays / 50..arrays + arrays / 20).contains(&seen.verified), "{seen:?} for {arrays}");
    assert!(seen.overhead() < 0.05 && seen.locked() > 0.94, "{:.3} {:.3} {seen:?}", seen.overhead(), seen.locked());
}

/// The program needs 205 µs for a block, the maintenance thread 316 µs, and a fault has its cost: the two together can
/// do no better than 268.
#[test]
fn a_sweep_that_is_too_fast_for_the_keeper_shares_the_work_with_it() {
    let counts = GuardCounts::default();
    let mut world = Simulated::new(640, settings(32), &counts);
    world.run(sweep(0..64, 400));
    let seen = world.run(sweep(64..512, 400));
    assert!(
        seen.overhead() < 1.15 * (268.0 / 205.0) - 1.0 && seen.verified < 460 * BLOCK,
        "{:.3} {seen:?}",
        seen.overhead()
    );
}

/// What an engine need not have.
#[test]
fn an_engine_of_the_least_watches_no_writes_and_loses_no_page() {
    let counts = GuardCounts::default();
    let world = Simulated::new(8, settings(2), &counts);
    let (engine, page) = (world.guard.engine(), PageIndex(7 * BLOCK));
    assert!(!engine.settle_watched(page) && !engine.was_given_back(page));
    assert_eq!(engine.most_unlocked(), usize::MAX);
    let is_there = |page: PageIndex| engine.there.lock().unwrap()[usize::try_from(page.0).unwrap()];
    assert!(is_there(page) && !is_there(PageIndex(0)));
    assert!(!world.guard.inject_loss(PageIndex(0)));
    assert_eq!(counts.get(Counter::Injected), 0);
    engine.zero(PageSpan::of_page(page));
    assert!(!is_there(page), "its next touch is a fault");
    engine.looked_at.lock().unwrap()[0] = PageData::from_seed(3);
    assert!(engine.read(PageIndex(0)) == PageData::from_seed(3));
}
