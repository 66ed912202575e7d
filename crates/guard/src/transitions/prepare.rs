//! What is done ahead of the program: units are opened, or verified for the fault that is about to come.
//!
//! A unit that was only verified is *ready*. It counts as open, since nobody looks at it any more before the program
//! does; and if it is let go before that, it is as locked as it was, since its codes are still right.

use rampart_memory::Timestamp;

use crate::engine::GuardEngine;
use crate::policy::prefetch::{BlockPart, Course, Want};
use crate::policy::unlocked_queue::UnlockedUnits;
use crate::state::layout::{BlockIndex, PageIndex};
use crate::state::table::{BlockState, Grain, GuardBlock};
use crate::state::units::Units;
use crate::telemetry::counts::Counter;

use super::Guard;
use super::unlock::Why;
use super::verify::Verified;

/// The part of the cap that is in use in turn, at most, where the next round is prepared beside it: two of them need a
/// little more than all, and the last ones go as the next come.
const IN_USE: (u64, u64) = (3, 5);

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// Whether a fault on this unit tells that the program has come to a group of blocks that it goes through in
    /// rounds. Then the next round of these is wanted.
    pub(crate) fn comes_round(&self, block: BlockIndex, known: &GuardBlock, unit: u32) -> bool {
        if known.last_run_from(unit).is_empty() {
            return false;
        }
        let mut wants = self.rounds().comes_to(block).peekable();
        let comes = wants.peek().is_some();
        self.wanted().later(wants);
        comes
    }

    /// As [`Guard::choose`]. A block in which the program goes on where it was is gathered with others.
    pub(crate) fn choose_and_gather(
        &self,
        known: &mut GuardBlock,
        block: BlockIndex,
        unit: u32,
        course: Course,
    ) -> Units {
        let gathers = known.state == BlockState::Used && course == Course::Stride && known.goes_on_at(unit);
        let units = self.choose(known, unit, course);
        if gathers && !known.open.has(units) {
            let wants = self.rounds().gather(block);
            self.wanted().later(wants);
        }
        units
    }

    /// What the fault that was just served wanted is open up to `end`: what is wanted next, and what is left behind.
    pub(crate) fn look_ahead(&self, end: PageIndex) {
        let cap = self.layout().blocks_of(self.openings().cap());
        let (next, passed) = {
            let mut ahead = self.ahead();
            (ahead.served(end, cap), ahead.passed())
        };
        self.wanted().soon(next);
        let units = self.layout().all_units();
        let mut openings = self.openings();
        passed.for_each(|block| openings.pass(UnlockedUnits { block, units }));
    }

    /// Whether the program has not been there meanwhile.
    pub(crate) fn is_still_ahead(&self, want: Want) -> bool {
        match want.part() {
            BlockPart::Block(block) => self.ahead().is_ahead(self.layout().span(block).first),
            BlockPart::UnitOf(page) => self.ahead().is_ahead(page),
            BlockPart::NextOf(_) => true,
        }
    }

    /// What is wrong is told, and found again when the program wants it.
    pub(crate) fn prepare(&self, want: Want, now: Timestamp) {
        let part = want.part();
        let block = match part {
            BlockPart::Block(block) | BlockPart::NextOf(block) => Some(block),
            BlockPart::UnitOf(page) => self.layout().block_of(page),
        };
        let Some(block) = block else { return };
        let mut known = self.table.lock(block);
        if known.state != BlockState::Used {
            return;
        }
        let units = match (part, known.grain) {
            (BlockPart::Block(_), _) => self.layout().all_units(),
            (BlockPart::UnitOf(page), _) => {
                self.choose_and_gather(&mut known, block, self.layout().unit_of(page), Course::Stride)
            }
            (BlockPart::NextOf(_), Grain::Units { next, run, at }) if self.has_room_for(next, at) => {
                self.openings().pass(UnlockedUnits { block, units: Units::run(0, next - run) });
                self.choose(&mut known, next, Course::Stride)
            }
            (BlockPart::NextOf(_), _) => return self.rounds().forget(block),
        };
        match want {
            Want::Verify(_) => self.make_ready(block, &mut known, units, now),
            Want::Open(_) if known.open.has(units) => {}
            Want::Open(_) => {
                self.counts.add(Counter::Ahead, 1);
                self.open(block, &mut known, units, now, Why::Ahead);
            }
        }
    }

    /// Whether there are units from `next` on, and room for them beside all that was opened since `at`, which is in
    /// use.
    fn has_room_for(&self, next: u32, at: u64) -> bool {
        let openings = self.openings();
        let since = openings.ever() - at;
        next < self.layout().all_units().count() && since <= openings.cap() as u64 * IN_USE.0 / IN_USE.1
    }

    /// Verifies locked units for a program that is about to want them. What is wrong is told, and found again then.
    fn make_ready(&self, block: BlockIndex, known: &mut GuardBlock, units: Units, now: Timestamp) {
        let units = units & self.table.locked(known);
        if units.is_empty() || self.verify(block, known, units) != Verified::Right {
            return;
        }
        known.ready |= units;
        self.counts.add(Counter::Open, self.layout().pages_of(units));
        self.openings().opened_ahead(UnlockedUnits { block, units }, now);
    }
}
