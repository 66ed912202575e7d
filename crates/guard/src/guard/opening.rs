//! Units are opened, and locked again.

use std::time::Instant;

use rampart_memory::Timestamp;

use crate::accesses::{Access, Touch};
use crate::ahead::Course;
use crate::cap::Wait;
use crate::counts::Counter;
use crate::engine::{Frames, GuardEngine};
use crate::layout::{BlockIndex, PageIndex, Span};
use crate::openings::Opening;
use crate::table::{Block, Grain, State};
use crate::units::Units;

use super::checks::Verified;
use super::{Guard, Ordering, Served};

/// Why units are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The program waits for this page of them, to read or write it, since then; it may have jumped there.
    Wanted { page: PageIndex, touch: Touch, began: Instant, jumped: bool },
    /// It may want them soon.
    Ahead,
}

/// A block is opened whole until the program came back to it this often by jumps: a hot block stays open anyway.
const RETURNS: u8 = 2;

/// What a program uses in turn may be so small a part of the cap for more of each to be opened.
const PART: u64 = 6;

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// The units to open for a program that wants one of them, and got there on a course.
    pub(super) fn choose(&self, known: &mut Block, unit: u32, course: Course) -> Units {
        let all = self.layout().all_units();
        let this = Units::run(unit, 1);
        match known.state {
            State::Fresh | State::Kept => return all,
            State::Used if known.open.has(this) => return this,
            State::Used => {}
        }
        if let Some((first, count)) = known.ready.runs().find(|(first, count)| (*first..first + count).contains(&unit))
        {
            return Units::run(first, count);
        }
        let again = known.last_run_from(unit);
        if !matches!(course, Course::Sweep { .. }) && !again.is_empty() {
            return again;
        }
        let (run, at) = match (course, known.grain) {
            (Course::Sweep { .. }, Grain::Whole { .. }) => return all,
            (Course::Sweep { up: true }, Grain::Units { .. }) => return Units::run(unit, all.count() - unit),
            (Course::Sweep { up: false }, Grain::Units { .. }) => return Units::run(0, unit + 1),
            (Course::Unknown, Grain::Whole { returns }) if returns < RETURNS => {
                known.grain = Grain::Whole { returns: returns + 1 };
                return all;
            }
            (Course::Unknown | Course::Stride, Grain::Whole { .. }) => {
                self.note_cut(known);
                (0, 0)
            }
            (Course::Unknown | Course::Stride, Grain::Units { run, at, .. }) => (run, at),
        };
        let (ever, cap) = {
            let openings = self.openings();
            (openings.ever(), openings.cap() as u64)
        };
        // Who goes on in a block gets twice as much, as long as that much of all that it uses in turn fits.
        let run = match ever - at {
            _ if !known.goes_on_at(unit) => 1,
            between if between <= cap / PART && unit.is_multiple_of(2 * run) => 2 * run,
            between if between > cap => run / 2,
            _ => run,
        };
        let run = run.clamp(1, all.count() - unit);
        known.grain = Grain::Units { next: unit + run, run, at: ever };
        Units::run(unit, run)
    }

    /// A huge page that is cut loses the frames of its pages of zeros: the kernel puts its own page of zeros in their place.
    fn note_cut(&self, known: &mut Block) {
        let mut codes = known.codes.chunks_exact(self.codec.scheme.code_bytes());
        if known.codes.is_empty() || !known.stale.is_empty() || codes.any(|codes| *codes == *self.zero_codes) {
            known.tested = None;
        }
    }

    /// The units to open for pages that are wanted all.
    pub(super) fn around(&self, known: &Block, part: Span) -> Units {
        match (known.state, known.grain) {
            (State::Used, Grain::Units { .. }) => self.layout().units_of(part),
            _ => self.layout().all_units(),
        }
    }

    /// Opens those units that are not.
    pub(super) fn open(&self, block: BlockIndex, known: &mut Block, units: Units, now: Timestamp, why: Why) -> Served {
        match known.state {
            State::Fresh => self.open_fresh(block, known, now, why),
            State::Used if !known.open.has(units) => self.open_closed(block, known, units - known.open, now, why),
            State::Used | State::Kept => self.open_again(block, known, why),
        }
    }

    fn open_fresh(&self, block: BlockIndex, known: &mut Block, now: Timestamp, why: Why) -> Served {
        self.counts.add(Counter::FirstUses, 1);
        let span = self.layout().span(block);
        let filled = match self.engine.supply(span) {
            Frames::Same => self.engine.fill(span),
            supplied => Ok(supplied),
        };
        match filled {
            Ok(frames) => {
                self.note_frames(known, frames);
                self.count_pages(block);
                (known.state, known.open) = (State::Used, self.layout().all_units());
                self.note_open(Opening { block, units: known.open }, Units::NONE, false, now, why);
                if why == Why::Ahead {
                    self.wake(block, known.open);
                }
                Served::GoesOn
            }
            Err(refusal) => {
                self.witness.lost(block, &refusal);
                Served::Stop
            }
        }
    }

    fn open_closed(&self, block: BlockIndex, known: &mut Block, closed: Units, now: Timestamp, why: Why) -> Served {
        let stale = closed & known.stale;
        let verified = self.verify(block, known, closed - stale - known.ready);
        if verified == Verified::Stop {
            return Served::Stop;
        }
        let watch = self.may_only_read(known, why) && verified == Verified::Right && stale.is_empty();
        if !stale.is_empty() {
            self.counts.add(Counter::Early, 1);
        }
        let asked = Instant::now();
        for span in self.layout().spans(block, closed) {
            let opened = if watch { self.open_to_read(known, span) } else { self.engine.open(span) };
            if let Err(refusal) = opened {
                self.witness.lost(block, &refusal);
                return Served::Stop;
            }
            known.open |= self.layout().units_of(span);
        }
        if why == Why::Ahead {
            self.interrupted(asked);
        }
        let was_ready = closed & known.ready;
        known.stale -= closed;
        known.ready -= closed;
        self.note_open(Opening { block, units: closed }, was_ready, true, now, why);
        if why == Why::Ahead {
            self.wake(block, closed);
        }
        Served::GoesOn
    }

    /// Those who wait for pages of these units go on.
    pub(super) fn wake(&self, block: BlockIndex, units: Units) {
        self.layout().spans(block, units).for_each(|span| self.engine.wake(span));
    }

    /// Somebody else opened it meanwhile; or the program gave the page back to the kernel by itself.
    fn open_again(&self, block: BlockIndex, known: &mut Block, why: Why) -> Served {
        let Why::Wanted { page, .. } = why else { return Served::GoesOn };
        let unit = Units::run(self.layout().unit_of(page), 1);
        if known.watched.has(unit) && self.engine.settle_watched(page) {
            return Served::GoesOn;
        }
        self.unwatch(block, known, unit);
        match self.engine.settle(page) {
            Ok(frames) => {
                self.note_frames(known, frames);
                if known.state == State::Kept { Served::Left } else { Served::GoesOn }
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

    /// What was ready is in the queue already, and counts as open.
    fn note_open(&self, opening: Opening, was_ready: Units, was_used: bool, now: Timestamp, why: Why) {
        let new = Opening { units: opening.units - was_ready, ..opening };
        self.counts.add(Counter::Open, self.layout().pages_of(new.units));
        let mut openings = self.openings();
        let touch = match why {
            Why::Wanted { touch, began, jumped, .. } => {
                openings.opened(new, now, was_used.then(|| Wait { time: began.elapsed(), jumped }));
                touch
            }
            Why::Ahead => {
                openings.opened_ahead(new, now);
                Touch::Ahead
            }
        };
        self.counts.set(Counter::Grown, u64::from(openings.grown()));
        drop(openings);
        for span in self.layout().spans(opening.block, opening.units) {
            self.witness.unlocked(Access::new(now, span, touch));
        }
    }

    /// A block is in use that was not.
    pub(super) fn count_pages(&self, block: BlockIndex) {
        let more = u64::from(self.layout().block_pages());
        self.reach.fetch_max(block.0 + 1, Ordering::Relaxed);
        self.counts.add(Counter::Pages, more);
        let pages = self.counts.get(Counter::Pages);
        self.counts.set(Counter::MostPages, pages.max(self.counts.get(Counter::MostPages)));
        let units = usize::try_from(pages / u64::from(self.layout().unit_pages())).expect("units have addresses");
        self.openings().uses(units);
    }

    /// Moves what was opened at once to the vault, then makes its codes. In between a fault may take it back. What is ready and was not
    /// wanted is as locked as it was.
    pub(super) fn close(&self, opening: Opening, now: Timestamp) {
        let Opening { block, units } = opening;
        let mut known = self.table.lock(block);
        let let_go = units & known.ready;
        known.ready -= let_go;
        self.counts.subtract(Counter::Open, self.layout().pages_of(let_go));
        let units = units & known.open;
        if known.state != State::Used || units.is_empty() {
            self.openings().went(block);
            return;
        }
        let (mut rest, mut refused) = (units, false);
        let asked = Instant::now();
        for span in self.layout().spans(block, units) {
            if known.holders > 0 {
                break;
            }
            let Ok(frames) = self.engine.close(span) else {
                refused = true;
                break;
            };
            if frames != Frames::Same {
                // Pages were missing, or shared since a fork.
                known.watched -= self.layout().units_of(span);
            }
            self.note_frames(&mut known, frames);
            rest -= self.layout().units_of(span);
        }
        self.interrupted(asked);
        if !rest.is_empty() {
            self.unwatch(block, &mut known, rest);
            self.counts.add(Counter::Pinned, 1);
            let rest = Opening { block, units: rest };
            let mut openings = self.openings();
            if refused { openings.refused(rest, now) } else { openings.stays(rest, now) }
        } else {
            self.openings().went(block);
        }
        let closed = units - rest;
        if closed.is_empty() {
            return;
        }
        self.counts.add(Counter::Locked, 1);
        self.counts.subtract(Counter::Open, self.layout().pages_of(closed));
        let unwritten = closed & known.watched;
        self.counts.add(Counter::Unwritten, self.layout().pages_of(unwritten));
        known.open -= closed;
        known.watched -= closed;
        known.stale |= closed - unwritten;
        drop(known);
        self.encode(block, closed);
    }
}
