//! Units are opened: how many for a fault, and what becomes of each.

use std::time::Duration;

use rampart_memory::Timestamp;

use crate::engine::{Frames, GuardEngine};
use crate::policy::limit::Wait;
use crate::policy::prefetch::Course;
use crate::policy::unlocked_queue::Opening;
use crate::state::layout::{BlockIndex, PageIndex, Span};
use crate::state::table::{Block, Grain, State};
use crate::state::units::Units;
use crate::telemetry::accesses::{Access, Touch};
use crate::telemetry::counts::Counter;

use super::verify::Verified;
use super::{Guard, Served};

/// Why units are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The program waits for this page of them, to read or write it, since the stopwatch read `began`. It may have
    /// jumped there.
    Wanted { page: PageIndex, touch: Touch, began: Duration, jumped: bool },
    /// It may want them soon.
    Ahead,
}

/// A block is opened whole until the program came back to it this often by jumps: a hot block stays open anyway.
const RETURNS: u8 = 2;

/// What a program uses in turn may be so small a part of the cap for more of each to be opened.
const PART: u64 = 6;

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// The units to open for a program that wants one of them, and got there on a course.
    pub(crate) fn choose(&self, known: &mut Block, unit: u32, course: Course) -> Units {
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

    /// A huge page that is cut loses the frames of its pages of zeros: the kernel puts its own page of zeros in their
    /// place.
    fn note_cut(&self, known: &mut Block) {
        let mut codes = known.codes.chunks_exact(self.codec.scheme.code_bytes());
        if known.codes.is_empty() || !known.stale.is_empty() || codes.any(|codes| *codes == *self.zero_codes) {
            known.tested = None;
        }
    }

    /// The units to open for pages that are wanted all.
    pub(crate) fn around(&self, known: &Block, part: Span) -> Units {
        match (known.state, known.grain) {
            (State::Used, Grain::Units { .. }) => self.layout().units_of(part),
            _ => self.layout().all_units(),
        }
    }

    /// Opens those units that are not.
    pub(crate) fn open(&self, block: BlockIndex, known: &mut Block, units: Units, now: Timestamp, why: Why) -> Served {
        match known.state {
            State::Fresh => self.open_fresh(block, known, now, why),
            State::Used if !known.open.has(units) => self.open_closed(block, known, units - known.open, now, why),
            State::Used | State::Kept => self.open_again(block, known, why),
        }
    }

    /// Opens units for what no fault would tell: none of them is watched afterwards.
    pub(crate) fn open_unwatched(&self, block: BlockIndex, known: &mut Block, units: Units, now: Timestamp) -> Served {
        let served = self.open(block, known, units, now, Why::Ahead);
        self.unwatch(block, known, units);
        served
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
        let writes = matches!(why, Why::Wanted { touch: Touch::Write, .. });
        let watch = self.may_only_read(known, writes) && verified == Verified::Right && stale.is_empty();
        if !stale.is_empty() {
            self.counts.add(Counter::Early, 1);
        }
        let asked = self.clock.stopwatch();
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
    pub(crate) fn wake(&self, block: BlockIndex, units: Units) {
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

    /// What was ready is in the queue already, and counts as open.
    fn note_open(&self, opening: Opening, was_ready: Units, was_used: bool, now: Timestamp, why: Why) {
        let new = Opening { units: opening.units - was_ready, ..opening };
        self.counts.add(Counter::Open, self.layout().pages_of(new.units));
        let mut openings = self.openings();
        let touch = match why {
            Why::Wanted { touch, began, jumped, .. } => {
                openings.opened(new, now, was_used.then(|| Wait { time: self.took(began), jumped }));
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
}
