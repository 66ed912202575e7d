//! The state machine over blocks: faults open them, the keeper locks them again.
//!
//! ```text
//!            first use                 the keeper: moved to the vault
//!  Fresh ─────────────────► Open ─────────────────────────────────────► Stale
//!    ▲                       ▲ ▲                                          │ │
//!    │ forgotten             │ └──────── a fault: nothing to verify ──────┘ │ codes made of what
//!    │                       │                                              ▼ was written
//!    └── any state           └──────── a fault: verified, corrected ───── Locked
//!
//!  Kept: open for good
//! ```
//!
//! Two threads work on it: the *handler* answers faults ([`Guard::fault`]), the *keeper* locks blocks, makes their codes and
//! opens blocks ahead of the program ([`Guard::keep`]); 002_55d5eb8104b64c01.txt, listings 4.3 and 4.4, and 4.4.4 for the second.

pub mod renewal;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rampart_codes::{Codec, Outcome};
use rampart_memory::Timestamp;

use crate::accesses::{Access, Touch};
use crate::ahead::Ahead;
use crate::counts::{Counter, Counts};
use crate::engine::{Engine, Frames};
use crate::knobs::{Knobs, OnError};
use crate::layout::{BlockIndex, Layout, PageIndex, PageSet, Span};
use crate::openings::Openings;
use crate::samples::Sample;
use crate::table::{Block, State, Table};
use crate::witness::{Trouble, Witness};

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The program goes on.
    GoesOn,
    /// It must not: the page is beyond correction, and so it was wished.
    Stop,
    /// The program has the page for good: if it faults there again, the fault is its own affair.
    Left,
    /// The fault is not in the guarded range.
    Elsewhere,
}

/// A guard over one range.
pub struct Guard<'a, E: Engine> {
    engine: E,
    knobs: Knobs,
    /// Blocks that may be open at once at all.
    most: usize,
    codec: Codec,
    table: Table,
    openings: Mutex<Openings>,
    ahead: Mutex<Ahead>,
    wanted: Mutex<VecDeque<BlockIndex>>,
    averaged: Mutex<Timestamp>,
    /// Blocks up to the last that was ever in use.
    reach: AtomicU64,
    counts: &'a Counts,
    witness: &'a dyn Witness,
}

impl<'a, E: Engine> Guard<'a, E> {
    /// A guard over a range of which nothing is used yet.
    #[must_use]
    pub fn new(
        engine: E,
        layout: Layout,
        knobs: Knobs,
        counts: &'a Counts,
        witness: &'a dyn Witness,
        now: Timestamp,
    ) -> Self {
        assert_eq!(layout.block_pages(), knobs.block_pages, "the range is cut as the knobs say");
        let most = engine.most_open();
        let cap = usize::try_from(knobs.cap_blocks()).expect("a cap is less than all addresses").min(most);
        Self {
            engine,
            most,
            knobs,
            codec: Codec { scheme: knobs.scheme, engine: rampart_codes::Engine::detect() },
            table: Table::new(layout),
            openings: Mutex::new(Openings::new(cap, knobs.target(), knobs.interval)),
            ahead: Mutex::new(Ahead::new(knobs.ahead)),
            wanted: Mutex::default(),
            averaged: Mutex::new(now),
            reach: AtomicU64::new(0),
            counts,
            witness,
        }
    }

    /// How the range is cut.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.table.layout()
    }

    /// What is done about a page that cannot be corrected.
    #[must_use]
    pub const fn on_error(&self) -> OnError {
        self.knobs.on_error
    }

    /// The machine below.
    pub const fn engine(&self) -> &E {
        &self.engine
    }

    /// Serves a fault of the program that reads or writes a page: afterwards the page is there.
    pub fn fault(&self, page: PageIndex, touch: Touch, now: Timestamp) -> Served {
        let Some(block) = self.layout().block_of(page) else { return Served::Elsewhere };
        self.counts.add(Counter::Faults, 1);
        self.make_room(now);
        let served = self.open(block, now, Why::Wanted { page, touch, began: Instant::now() });
        let next = self.ahead.lock().expect("no panic").fault(block, self.layout().blocks());
        self.wanted.lock().expect("no panic").extend(next);
        served
    }

    /// A keeper that is late must not let more be open than the kernel can keep apart.
    fn make_room(&self, now: Timestamp) {
        while self.openings().count() >= self.most {
            let oldest = self.openings().oldest();
            let Some(block) = oldest else { return };
            self.close(block, now);
        }
    }

    /// A system call is about to use these pages, and would not wait for a fault: they are opened and stay so until
    /// [`Guard::release`].
    pub fn hold(&self, span: Span, now: Timestamp) -> Served {
        self.make_room(now);
        for (block, _) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            if self.open_known(block, &mut known, now, Why::Ahead) == Served::Stop {
                return Served::Stop;
            }
            known.holders += 1;
        }
        Served::GoesOn
    }

    /// As [`Guard::hold`], where all of them are open already, which any thread can do. `false`: not all are, and nothing was
    /// done.
    pub fn hold_open(&self, span: Span) -> bool {
        let mut held = 0;
        for (block, _) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            if !matches!(known.state, State::Open | State::Kept) {
                break;
            }
            known.holders += 1;
            held += 1;
        }
        let all = held == self.layout().parts(span).count();
        if !all {
            self.layout().parts(span).take(held).for_each(|(_, part)| self.release(part));
        }
        all
    }

    /// Ends one [`Guard::hold`] of the same pages.
    pub fn release(&self, span: Span) {
        for (block, _) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            known.holders = known.holders.checked_sub(1).expect("what is released was held");
        }
    }

    /// Whether the keeper has something to do at once.
    #[must_use]
    pub fn is_busy(&self, now: Timestamp) -> bool {
        let openings = self.openings.lock().expect("no panic");
        !self.wanted.lock().expect("no panic").is_empty()
            || openings.count() > openings.cap()
            || openings.next(now).is_some_and(|left| left.is_zero())
    }

    /// Does one thing that is due: opens a block ahead of the program, or locks one. Returns how long nothing will be due
    /// unless a fault comes; zero if something is.
    pub fn keep(&self, now: Timestamp) -> Option<Duration> {
        self.average(now);
        let wanted = self.wanted.lock().expect("no panic").pop_front();
        if let Some(block) = wanted {
            self.open_ahead(block, now);
            return Some(Duration::ZERO);
        }
        let due = self.openings().due(now);
        let Some(block) = due else { return self.openings().next(now) };
        self.close(block, now);
        Some(Duration::ZERO)
    }

    /// The content of whole blocks is not needed any more: they read as zeros from now on. `false` if the span is of parts of
    /// blocks, and nothing is done then; or if some of them were left to the program for good, which stay as they are.
    pub fn forget(&self, span: Span) -> bool {
        let Some(blocks) = self.layout().whole_blocks(span) else { return false };
        let forgotten = |block| {
            let mut known = self.table.lock(block);
            let kept = known.state == State::Kept;
            if !kept {
                self.discard(block, &mut known);
            }
            !kept
        };
        blocks.map(forgotten).fold(true, |all, forgotten| all & forgotten)
    }

    /// As [`Guard::forget`], and with blocks that were left to the program: their mapping is as it was before.
    pub fn take_back(&self, span: Span) -> bool {
        let Some(blocks) = self.layout().whole_blocks(span) else { return false };
        blocks.for_each(|block| self.discard(block, &mut self.table.lock(block)));
        true
    }

    fn discard(&self, block: BlockIndex, known: &mut Block) {
        if known.state == State::Fresh {
            return;
        }
        self.engine.discard(self.layout().span(block));
        let pages = u64::from(self.layout().block_pages());
        self.counts.subtract(Counter::Pages, pages);
        if matches!(known.state, State::Open | State::Kept) {
            self.counts.subtract(Counter::Open, pages);
        }
        known.state = State::Fresh;
    }

    /// The program gives pages back to the kernel by itself: they read as zeros from now on, and the rest of their blocks is
    /// as it was.
    pub fn zero(&self, span: Span, now: Timestamp) -> Served {
        for (block, part) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            if known.state == State::Fresh {
                continue;
            }
            if self.open_known(block, &mut known, now, Why::Ahead) == Served::Stop {
                return Served::Stop;
            }
            self.engine.zero(part);
        }
        Served::GoesOn
    }

    /// The program is about to do to these pages' mapping what a guard cannot follow: they are opened, for good.
    pub fn leave(&self, span: Span, now: Timestamp) -> Served {
        for (block, _) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            if self.open_known(block, &mut known, now, Why::Ahead) == Served::Stop {
                return Served::Stop;
            }
            known.state = State::Kept;
        }
        Served::GoesOn
    }

    /// A block that the program has used since before the guard began, unless it has faulted on it since.
    pub fn adopt(&self, block: BlockIndex, now: Timestamp) {
        let mut known = self.table.lock(block);
        if known.state != State::Fresh {
            return;
        }
        known.state = State::Open;
        let pages = u64::from(self.layout().block_pages());
        self.count_pages(block);
        self.counts.add(Counter::Open, pages);
        self.openings().opened_ahead(block, now);
    }

    /// As [`Guard::adopt`], of the blocks of pages that were left to the program for good.
    pub fn adopt_left(&self, span: Span) {
        for (block, _) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            if known.state == State::Fresh {
                self.count_pages(block);
                self.counts.add(Counter::Open, u64::from(self.layout().block_pages()));
                known.state = State::Kept;
            }
        }
    }

    /// Flips bits of a locked page: a memory error that is made up. `false` if the page is not locked.
    pub fn inject(&self, page: PageIndex, bits: &[u32]) -> bool {
        let Some(block) = self.layout().block_of(page) else { return false };
        let known = self.table.lock(block);
        let locked = known.state == State::Locked;
        if locked {
            bits.iter().for_each(|&bit| self.engine.flip(page, bit));
            self.counts.add(Counter::Injected, 1);
        }
        locked
    }

    /// Opens every block that is locked, as before a fork. One with a page beyond correction stays, and is told, if so it was wished.
    pub fn open_all(&self, now: Timestamp) -> Served {
        let closed = |block: &BlockIndex| matches!(self.table.lock(*block).state, State::Stale | State::Locked);
        let open = |block| self.open(block, now, Why::Ahead) == Served::Stop;
        let stopped = self.table.known().filter(closed).map(open).fold(false, |stopped, stop| stopped | stop);
        if stopped { Served::Stop } else { Served::GoesOn }
    }

    /// Pages up to the last that was ever in use.
    #[must_use]
    pub fn used_pages(&self) -> u64 {
        self.reach.load(Ordering::Relaxed) * u64::from(self.layout().block_pages())
    }

    /// Verifies every locked block without opening it, such as before the program's end. Returns how many pages were looked at.
    pub fn verify_all(&self) -> u64 {
        let mut pages = 0;
        for block in self.table.known() {
            let mut known = self.table.lock(block);
            if known.state == State::Locked {
                self.verify(block, &mut known);
                pages += u64::from(self.layout().block_pages());
            }
        }
        pages
    }

    /// The program waited for so long.
    pub fn waited(&self, time: Duration) {
        self.counts.add(Counter::ServeNanos, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What was done until now.
    #[must_use]
    pub fn sample(&self, now: Timestamp) -> Sample {
        self.average(now);
        Sample { at: now, counts: self.counts.snapshot() }
    }

    fn openings(&self) -> MutexGuard<'_, Openings> {
        self.openings.lock().expect("no panic")
    }

    fn open(&self, block: BlockIndex, now: Timestamp, why: Why) -> Served {
        self.open_known(block, &mut self.table.lock(block), now, why)
    }

    fn open_known(&self, block: BlockIndex, known: &mut Block, now: Timestamp, why: Why) -> Served {
        let span = self.layout().span(block);
        if known.state == State::Locked && self.verify(block, known) == Served::Stop {
            return Served::Stop;
        }
        let opened = match (known.state, why) {
            (State::Fresh, _) => {
                self.counts.add(Counter::FirstUses, 1);
                match self.engine.supply(span) {
                    Frames::Same => self.engine.fill(span),
                    supplied => Ok(supplied),
                }
            }
            (State::Open | State::Kept, Why::Wanted { page, .. }) => self.engine.settle(page),
            (State::Open | State::Kept, Why::Ahead) => Ok(Frames::Same),
            (State::Stale, _) => {
                self.counts.add(Counter::Early, 1);
                self.engine.open(span).map(|()| Frames::Same)
            }
            (State::Locked, _) => self.engine.open(span).map(|()| Frames::Same),
        };
        match opened {
            Ok(frames) => {
                let left = known.state == State::Kept;
                self.note_frames(known, frames);
                self.note_open(block, known, now, why);
                if left { Served::Left } else { Served::GoesOn }
            }
            Err(refusal) => {
                self.witness.lost(block, &refusal);
                Served::Stop
            }
        }
    }

    /// A block of which a page is on a frame that was not tested counts as not tested.
    fn note_frames(&self, known: &mut Block, frames: Frames) {
        let (counter, tested) = match frames {
            Frames::Same => return,
            Frames::Untested => (Counter::Untested, None),
            Frames::Tested(at) => (Counter::Supplied, Some(at)),
        };
        if known.state == State::Fresh {
            self.counts.add(counter, u64::from(self.layout().block_pages()));
        }
        known.tested = tested;
    }

    fn note_open(&self, block: BlockIndex, known: &mut Block, now: Timestamp, why: Why) {
        let pages = u64::from(self.layout().block_pages());
        let was_locked = match known.state {
            State::Open | State::Kept => return,
            State::Fresh => {
                self.count_pages(block);
                false
            }
            State::Stale | State::Locked => true,
        };
        self.counts.add(Counter::Open, pages);
        known.state = State::Open;
        let mut openings = self.openings();
        let touch = match why {
            Why::Wanted { touch, began, .. } => {
                openings.opened(block, now, was_locked.then(|| began.elapsed()));
                touch
            }
            Why::Ahead => {
                openings.opened_ahead(block, now);
                Touch::Ahead
            }
        };
        self.counts.set(Counter::Grown, u64::from(openings.grown()));
        drop(openings);
        self.witness.unlocked(Access::new(now, self.layout().span(block), touch));
    }

    /// A block is in use that was not.
    fn count_pages(&self, block: BlockIndex) {
        let more = u64::from(self.layout().block_pages());
        self.reach.fetch_max(block.0 + 1, Ordering::Relaxed);
        self.counts.add(Counter::Pages, more);
        let pages = self.counts.get(Counter::Pages);
        self.counts.set(Counter::MostPages, pages.max(self.counts.get(Counter::MostPages)));
        let blocks = usize::try_from(pages / more).expect("blocks have addresses");
        self.openings().uses(blocks);
    }

    /// What is wrong is told, and found again when the program wants it.
    fn open_ahead(&self, block: BlockIndex, now: Timestamp) {
        let state = self.table.lock(block).state;
        if matches!(state, State::Stale | State::Locked) {
            self.counts.add(Counter::Ahead, 1);
            self.open(block, now, Why::Ahead);
        }
    }

    /// Moves a block to the vault, then makes its codes. In between a fault may take it back.
    fn close(&self, block: BlockIndex, now: Timestamp) {
        let mut known = self.table.lock(block);
        if known.state != State::Open {
            return;
        }
        let closed = if known.holders > 0 { None } else { self.engine.close(self.layout().span(block)).ok() };
        let Some(frames) = closed else {
            self.counts.add(Counter::Pinned, 1);
            self.openings().stays(block, now);
            return;
        };
        self.note_frames(&mut known, frames);
        self.counts.add(Counter::Locked, 1);
        self.counts.subtract(Counter::Open, u64::from(self.layout().block_pages()));
        known.state = State::Stale;
        drop(known);
        self.encode(block);
    }

    fn encode(&self, block: BlockIndex) {
        let mut known = self.table.lock(block);
        if known.state != State::Stale {
            return;
        }
        let began = Instant::now();
        let span = self.layout().span(block);
        if known.codes.is_empty() {
            known.codes = vec![0; self.layout().block_pages() as usize * self.codec.scheme.code_bytes()].into();
        }
        self.engine.with_vault(span, |pages| self.codec.encode_all(pages, &mut known.codes));
        known.state = State::Locked;
        self.counts.add(Counter::Encoded, span.count.get());
        self.counts.add(Counter::EncodeNanos, nanos(began));
    }

    /// Verifies a locked block in the vault and puts right what can be.
    fn verify(&self, block: BlockIndex, known: &mut Block) -> Served {
        let began = Instant::now();
        let span = self.layout().span(block);
        let mut wrong = PageSet::NONE;
        self.engine.with_vault(span, |pages| {
            let note = |page| wrong.insert(u32::try_from(page).expect("a page of a block"));
            self.codec.verify_all(pages, &known.codes, note);
        });
        self.counts.add(Counter::Verified, span.count.get());
        self.counts.add(Counter::VerifyNanos, nanos(began));
        let served = wrong.iter().map(|page| self.correct(span, page as usize, &mut known.codes));
        if served.fold(false, |stop, served| stop | (served == Served::Stop)) { Served::Stop } else { Served::GoesOn }
    }

    fn correct(&self, span: Span, page: usize, codes: &mut [u8]) -> Served {
        let size = self.codec.scheme.code_bytes();
        let codes = &mut codes[page * size..][..size];
        let page = PageIndex(span.first.0 + page as u64);
        let outcome =
            self.engine.with_vault(Span::of_page(page), |pages| self.codec.correct(&mut pages.page(0), codes));
        let (counter, stop) = match outcome {
            Outcome::Intact => return Served::GoesOn,
            Outcome::CodesWrong => (Counter::CodesWrong, false),
            Outcome::Corrected(_) => (Counter::Corrected, false),
            Outcome::Uncorrectable => (Counter::Uncorrectable, self.knobs.on_error != OnError::Continue),
        };
        self.counts.add(counter, 1);
        self.witness.trouble(&Trouble { page, frame: self.engine.frame(page), outcome });
        if stop { Served::Stop } else { Served::GoesOn }
    }

    /// Adds the time since it was last done to the sums that averages are taken from.
    fn average(&self, now: Timestamp) {
        let mut last = self.averaged.lock().expect("no panic");
        let micros = u64::try_from(now.since(*last).as_micros()).unwrap_or(0);
        *last = now;
        self.counts.add(Counter::Micros, micros);
        self.counts.add(Counter::PageMicros, micros.saturating_mul(self.counts.get(Counter::Pages)));
        self.counts.add(Counter::OpenMicros, micros.saturating_mul(self.counts.get(Counter::Open)));
    }
}

/// Why a block is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The program waits for this page of it, to read or write it, since then.
    Wanted { page: PageIndex, touch: Touch, began: Instant },
    /// It may want it soon.
    Ahead,
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
