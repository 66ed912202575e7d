//! The entry points for the threads of a guard: [`Guard::fault`], [`Guard::keep`], and operations on the whole range.
//!
//! The *fault handler* answers faults. The *maintenance thread* locks what was unlocked, makes its codes, and
//! prefetches [Fiala15, 4.4.4 for the second, lst. 4.3 and 4.4]. [`transitions`](crate::transitions) has the states of
//! a block.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rampart_codes::{Codec, PageData};
use rampart_memory::{Clock, Timestamp};

use crate::engine::GuardEngine;
use crate::policy::limit::UnlockedLimit;
use crate::policy::prefetch::AccessPattern;
use crate::policy::prefetch::streams::Prefetcher;
use crate::policy::unlocked_queue::{UnlockedQueue, UnlockedUnits};
use crate::settings::pages::{GuardSettings, OnError};
use crate::state::layout::{BlockIndex, Layout, PageIndex, PageSpan};
use crate::state::table::{BlockState, BlockTable};
use crate::state::units::Units;
use crate::telemetry::accesses::Touch;
use crate::telemetry::counts::{Counter, GuardCounts};
use crate::telemetry::observer::GuardObserver;
use crate::telemetry::samples::Sample;
use crate::transitions::unlock::Why;
use crate::transitions::{FaultOutcome, Guard};

impl<'a, E: GuardEngine + ?Sized> Guard<'a, E> {
    /// A guard over a range that is not used yet. Its callers pass in the present time; `clock` measures the duration
    /// of the guard's own work.
    #[must_use]
    pub fn new(
        engine: Box<E>,
        layout: Layout,
        settings: GuardSettings,
        counts: &'a GuardCounts,
        observer: &'a dyn GuardObserver,
        clock: &'a (dyn Clock + Sync),
    ) -> Self {
        let cut = (layout.block_pages(), layout.unit_pages());
        assert_eq!(cut, (settings.block_pages, settings.unit_pages), "the range is cut as the settings say");
        let most = engine.most_unlocked();
        let codec = Codec { scheme: settings.scheme, engine: rampart_codes::CodeEngine::detect() };
        let mut zero_codes = vec![0; codec.scheme.code_bytes()].into_boxed_slice();
        codec.encode(&(&mut PageData::ZERO.clone()).into(), &mut zero_codes);
        Self {
            engine,
            most,
            settings,
            codec,
            zero_codes,
            table: BlockTable::new(layout),
            queue: Mutex::new(UnlockedQueue::new(UnlockedLimit::asked_for(&settings, most), settings.interval)),
            ahead: Mutex::new(Prefetcher::new(layout, settings.prefetch)),
            rounds: Mutex::default(),
            prefetch_queue: Mutex::default(),
            averaged: Mutex::new(clock.now()),
            reach: AtomicU64::new(0),
            counts,
            observer,
            clock,
        }
    }

    /// The action for a page that cannot be corrected.
    #[must_use]
    pub const fn on_error(&self) -> OnError {
        self.settings.on_error
    }

    /// The engine.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// Serves a fault of the program that reads or writes a page: afterwards the page is there. `before` runs before
    /// the program is woken, which may take the CPU from this thread.
    pub fn fault(&self, page: PageIndex, touch: Touch, now: Timestamp, before: impl FnOnce()) -> FaultOutcome {
        let Some(block) = self.layout().block_of(page) else { return FaultOutcome::Elsewhere };
        let began = self.clock.stopwatch();
        self.counts.add(Counter::Faults, 1);
        self.make_room(now);
        let unit = self.layout().unit_of(page);
        let mut known = self.table.lock(block);
        let comes_round = self.comes_round(block, &known, unit);
        let pattern = if comes_round { AccessPattern::Strided } else { self.prefetcher().fault(page, now) };
        // Going on in the same block is an access pattern too.
        let jumped = pattern == AccessPattern::Unknown && !known.goes_on_at(unit);
        let units = self.choose_and_gather(&mut known, block, unit, pattern);
        // Where the program has the page already, it is woken once that is settled.
        let to_wake =
            if known.state == BlockState::Untouched { units } else { units & self.table.not_unlocked(&known) };
        let served = self.unlock_units(block, &mut known, units, now, Why::Accessed { page, touch, began, jumped });
        drop(known);
        if !comes_round {
            self.look_ahead(self.layout().spans(block, units).next().map_or(page, PageSpan::end));
        }
        before();
        self.waited(self.took(began));
        if served != FaultOutcome::Stop {
            self.wake(block, to_wake);
        }
        served
    }

    /// The program has been running again since `now`, after its last fault.
    pub fn goes_on(&self, now: Timestamp) {
        self.prefetcher().goes_on(now);
    }

    /// Whether the maintenance thread has work to do at once.
    #[must_use]
    pub fn is_busy(&self, now: Timestamp) -> bool {
        let queue = self.unlocked_queue();
        queue.is_over() || queue.next(now).is_some_and(|left| left.is_zero()) || !self.prefetch_queue().is_empty()
    }

    /// Does one task that is due: prefetches something or locks something. Returns the time until the next task unless
    /// a fault comes; zero if one is due now.
    pub fn keep(&self, now: Timestamp) -> Option<Duration> {
        self.average(now);
        let keeps_up = !self.unlocked_queue().is_far_over();
        let soon = if keeps_up { self.prefetch_queue().next_soon() } else { None };
        if let Some(request) = soon {
            if self.is_still_expected(request) {
                self.prepare(request, now);
            }
            return Some(Duration::ZERO);
        }
        let due = self.unlocked_queue().due(now);
        if let Some(unlocked) = due {
            self.lock_units(unlocked, now);
            return Some(Duration::ZERO);
        }
        let later = self.prefetch_queue().next_later();
        let Some(request) = later else { return self.unlocked_queue().next(now) };
        self.prepare(request, now);
        Some(Duration::ZERO)
    }

    /// A block that the program has used since before the guard began, unless it has faulted on it since.
    pub fn adopt(&self, block: BlockIndex, now: Timestamp) {
        if self.take_in(block, BlockState::Used) {
            self.unlocked_queue().prefetched(UnlockedUnits { block, units: self.layout().all_units() }, now);
        }
    }

    /// As [`Guard::adopt`], for the blocks of pages that are excluded from guarding.
    pub fn adopt_left(&self, span: PageSpan) {
        for (block, _) in self.layout().parts(span) {
            self.take_in(block, BlockState::Excluded);
        }
    }

    /// Marks an untouched block as the program's. `false`: it is not untouched.
    fn take_in(&self, block: BlockIndex, state: BlockState) -> bool {
        let mut known = self.table.lock(block);
        let is_fresh = known.state == BlockState::Untouched;
        if is_fresh {
            (known.state, known.unlocked) = (state, self.layout().all_units());
            self.count_pages(block);
            self.counts.add(Counter::Unlocked, self.layout().pages_of(known.unlocked));
        }
        is_fresh
    }

    /// Flips bits of a locked page: an injected error. `false` if the page is not locked.
    pub fn inject(&self, page: PageIndex, bits: &[u32]) -> bool {
        self.err(page, || {
            bits.iter().for_each(|&bit| self.engine.flip(page, bit));
            true
        })
    }

    /// Makes the hardware lose a locked page: an injected error. `false` if it is not locked, or if the engine cannot
    /// do this.
    pub fn inject_loss(&self, page: PageIndex) -> bool {
        self.err(page, || self.engine.give_up(page))
    }

    fn err(&self, page: PageIndex, error: impl FnOnce() -> bool) -> bool {
        let Some(block) = self.layout().block_of(page) else { return false };
        let known = self.table.lock(block);
        let locked = self.table.locked(&known).has(Units::run(self.layout().unit_of(page), 1));
        let erred = locked && error();
        self.counts.add(Counter::Injected, u64::from(erred));
        erred
    }

    /// Unlocks everything, as before a fork, with nothing watched. With the setting to stop, a block with a page beyond
    /// correction stays locked, and is reported.
    pub fn unlock_all(&self, now: Timestamp) -> FaultOutcome {
        let mut served = FaultOutcome::GoesOn;
        for block in self.table.known() {
            let mut known = self.table.lock(block);
            let units = self.table.not_unlocked(&known) | known.watched;
            if !units.is_empty() && self.unlock_unwatched(block, &mut known, units, now) == FaultOutcome::Stop {
                served = FaultOutcome::Stop;
            }
        }
        served
    }

    /// Pages up to the last one that was ever in use.
    #[must_use]
    pub fn used_pages(&self) -> u64 {
        self.reach.load(Ordering::Relaxed) * u64::from(self.layout().block_pages())
    }

    /// Verifies all locked pages without unlocking them, as before the program's end. Returns the number of pages.
    pub fn verify_all(&self) -> u64 {
        let mut pages = 0;
        for block in self.table.known() {
            let mut known = self.table.lock(block);
            let locked = self.table.locked(&known);
            self.verify(block, &mut known, locked);
            pages += self.layout().pages_of(locked);
        }
        pages
    }

    /// The counts so far.
    #[must_use]
    pub fn sample(&self, now: Timestamp) -> Sample {
        self.average(now);
        Sample { at: now, counts: self.counts.snapshot() }
    }
}
