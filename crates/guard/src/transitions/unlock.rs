//! Unlocks units: how many for a fault, and how.

use std::time::Duration;

use rampart_memory::Timestamp;

use crate::engine::{FrameHistory, GuardEngine};
use crate::policy::limit::FaultWait;
use crate::policy::prefetch::AccessPattern;
use crate::policy::unlocked_queue::UnlockedUnits;
use crate::state::layout::{BlockIndex, PageIndex, PageSpan};
use crate::state::table::{BlockState, Grain, GuardBlock};
use crate::state::units::Units;
use crate::telemetry::accesses::{Touch, UnlockAccess};
use crate::telemetry::counts::Counter;

use super::verify::Verified;
use super::{FaultOutcome, Guard};

/// Why units are unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The program waits for this page of them, to read or write it, since the stopwatch read `began`. It may have
    /// jumped there.
    Accessed { page: PageIndex, touch: Touch, began: Duration, jumped: bool },
    /// It may use them soon.
    Ahead,
}

/// A block is unlocked as a whole until the program came back to it this often by jumps: a hot block stays unlocked
/// anyway.
const RETURNS: u8 = 2;

/// More of each block is unlocked only if the blocks in rotation take at most this part of the limit.
const PART: u64 = 6;

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// The units to unlock for a fault on one of them, with this access pattern.
    pub(crate) fn choose(&self, known: &mut GuardBlock, unit: u32, pattern: AccessPattern) -> Units {
        let all = self.layout().all_units();
        let this = Units::run(unit, 1);
        match known.state {
            BlockState::Untouched | BlockState::Excluded => return all,
            BlockState::Used if known.unlocked.has(this) => return this,
            BlockState::Used => {}
        }
        if let Some((first, count)) =
            known.pre_verified.runs().find(|(first, count)| (*first..first + count).contains(&unit))
        {
            return Units::run(first, count);
        }
        let again = known.last_run_from(unit);
        if !matches!(pattern, AccessPattern::Sequential { .. }) && !again.is_empty() {
            return again;
        }
        let (run, at) = match (pattern, known.grain) {
            (AccessPattern::Sequential { .. }, Grain::Whole { .. }) => return all,
            (AccessPattern::Sequential { up: true }, Grain::Units { .. }) => {
                return Units::run(unit, all.count() - unit);
            }
            (AccessPattern::Sequential { up: false }, Grain::Units { .. }) => return Units::run(0, unit + 1),
            (AccessPattern::Unknown, Grain::Whole { returns }) if returns < RETURNS => {
                known.grain = Grain::Whole { returns: returns + 1 };
                return all;
            }
            (AccessPattern::Unknown | AccessPattern::Strided, Grain::Whole { .. }) => {
                self.note_cut(known);
                (0, 0)
            }
            (AccessPattern::Unknown | AccessPattern::Strided, Grain::Units { run, at, .. }) => (run, at),
        };
        let (ever, cap) = {
            let queue = self.unlocked_queue();
            (queue.ever(), queue.cap() as u64)
        };
        // A program that continues in a block gets twice as much, as long as that much of all blocks in rotation fits.
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

    /// A split huge page loses the frames of its zero pages: the kernel replaces them by its own zero page.
    fn note_cut(&self, known: &mut GuardBlock) {
        let mut codes = known.codes.chunks_exact(self.codec.scheme.code_bytes());
        if known.codes.is_empty() || !known.pending.is_empty() || codes.any(|codes| *codes == *self.zero_codes) {
            known.tested = None;
        }
    }

    /// The units to unlock for pages that are all needed.
    pub(crate) fn around(&self, known: &GuardBlock, part: PageSpan) -> Units {
        match (known.state, known.grain) {
            (BlockState::Used, Grain::Units { .. }) => self.layout().units_of(part),
            _ => self.layout().all_units(),
        }
    }

    /// Unlocks those units that are locked.
    pub(crate) fn unlock_units(
        &self,
        block: BlockIndex,
        known: &mut GuardBlock,
        units: Units,
        now: Timestamp,
        why: Why,
    ) -> FaultOutcome {
        match known.state {
            BlockState::Untouched => self.unlock_untouched(block, known, now, why),
            BlockState::Used if !known.unlocked.has(units) => {
                self.unlock_locked(block, known, units - known.unlocked, now, why)
            }
            BlockState::Used | BlockState::Excluded => self.unlock_again(block, known, why),
        }
    }

    /// Unlocks units where no fault would show a write: none of them is watched afterwards.
    pub(crate) fn unlock_unwatched(
        &self,
        block: BlockIndex,
        known: &mut GuardBlock,
        units: Units,
        now: Timestamp,
    ) -> FaultOutcome {
        let served = self.unlock_units(block, known, units, now, Why::Ahead);
        self.unwatch(block, known, units);
        served
    }

    fn unlock_untouched(&self, block: BlockIndex, known: &mut GuardBlock, now: Timestamp, why: Why) -> FaultOutcome {
        self.counts.add(Counter::FirstUses, 1);
        let span = self.layout().span(block);
        let filled = match self.engine.supply(span) {
            FrameHistory::Same => self.engine.fill(span),
            supplied => Ok(supplied),
        };
        match filled {
            Ok(frames) => {
                self.note_frames(known, frames);
                self.count_pages(block);
                (known.state, known.unlocked) = (BlockState::Used, self.layout().all_units());
                self.note_unlock(UnlockedUnits { block, units: known.unlocked }, Units::NONE, false, now, why);
                if why == Why::Ahead {
                    self.wake(block, known.unlocked);
                }
                FaultOutcome::GoesOn
            }
            Err(refusal) => {
                self.observer.lost(block, &refusal);
                FaultOutcome::Stop
            }
        }
    }

    fn unlock_locked(
        &self,
        block: BlockIndex,
        known: &mut GuardBlock,
        locked: Units,
        now: Timestamp,
        why: Why,
    ) -> FaultOutcome {
        let pending = locked & known.pending;
        let verified = self.verify(block, known, locked - pending - known.pre_verified);
        if verified == Verified::Stop {
            return FaultOutcome::Stop;
        }
        let writes = matches!(why, Why::Accessed { touch: Touch::Write, .. });
        let watch = self.may_only_read(known, writes) && verified == Verified::Right && pending.is_empty();
        if !pending.is_empty() {
            self.counts.add(Counter::PendingUnlocked, 1);
        }
        let asked = self.clock.stopwatch();
        for span in self.layout().spans(block, locked) {
            let opened = if watch { self.unlock_to_read(known, span) } else { self.engine.unlock(span) };
            if let Err(refusal) = opened {
                self.observer.lost(block, &refusal);
                return FaultOutcome::Stop;
            }
            known.unlocked |= self.layout().units_of(span);
        }
        if why == Why::Ahead {
            self.interrupted(asked);
        }
        let was_ready = locked & known.pre_verified;
        known.pending -= locked;
        known.pre_verified -= locked;
        self.note_unlock(UnlockedUnits { block, units: locked }, was_ready, true, now, why);
        if why == Why::Ahead {
            self.wake(block, locked);
        }
        FaultOutcome::GoesOn
    }

    /// Wakes threads that wait for pages of these units.
    pub(crate) fn wake(&self, block: BlockIndex, units: Units) {
        self.layout().spans(block, units).for_each(|span| self.engine.wake(span));
    }

    /// Another thread unlocked it meanwhile; or the program gave the page back to the kernel by itself.
    fn unlock_again(&self, block: BlockIndex, known: &mut GuardBlock, why: Why) -> FaultOutcome {
        let Why::Accessed { page, .. } = why else { return FaultOutcome::GoesOn };
        let unit = Units::run(self.layout().unit_of(page), 1);
        if known.watched.has(unit) && self.engine.settle_watched(page) {
            return FaultOutcome::GoesOn;
        }
        self.unwatch(block, known, unit);
        match self.engine.settle(page) {
            Ok(frames) => {
                self.note_frames(known, frames);
                if known.state == BlockState::Excluded { FaultOutcome::Left } else { FaultOutcome::GoesOn }
            }
            Err(refusal) => {
                self.observer.lost(block, &refusal);
                FaultOutcome::Stop
            }
        }
    }

    /// Pre-verified units are in the queue already, and count as unlocked.
    fn note_unlock(&self, unlocked: UnlockedUnits, was_ready: Units, was_used: bool, now: Timestamp, why: Why) {
        let new = UnlockedUnits { units: unlocked.units - was_ready, ..unlocked };
        self.counts.add(Counter::Unlocked, self.layout().pages_of(new.units));
        let mut queue = self.unlocked_queue();
        let touch = match why {
            Why::Accessed { touch, began, jumped, .. } => {
                queue.unlocked(new, now, was_used.then(|| FaultWait { time: self.took(began), jumped }));
                touch
            }
            Why::Ahead => {
                queue.prefetched(new, now);
                Touch::Prefetch
            }
        };
        self.counts.set(Counter::LimitRaised, u64::from(queue.grown()));
        drop(queue);
        for span in self.layout().spans(unlocked.block, unlocked.units) {
            self.observer.unlocked(UnlockAccess::new(now, span, touch));
        }
    }
}
