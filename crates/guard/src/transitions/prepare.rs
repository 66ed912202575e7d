//! The prefetcher's work: units are unlocked, or pre-verified for an expected fault.
//!
//! A pre-verified unit counts as unlocked, because nobody verifies it again before the program reads it; if it is
//! discarded before that, it is as locked as before, since its codes are still right.

use rampart_memory::Timestamp;

use crate::engine::GuardEngine;
use crate::policy::prefetch::{AccessPattern, BlockPart, PrefetchRequest};
use crate::policy::unlocked_queue::UnlockedUnits;
use crate::state::layout::{BlockIndex, PageIndex};
use crate::state::table::{BlockState, Grain, GuardBlock};
use crate::state::units::Units;
use crate::telemetry::counts::Counter;

use super::Guard;
use super::unlock::Why;
use super::verify::Verified;

/// The largest share of the limit in rotation for which the next round is prepared: two rounds need a little more than
/// all of it, and the last units leave as the next ones come.
const IN_USE: (u64, u64) = (3, 5);

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// Whether a fault on this unit shows that the program has come to a group of blocks that it visits in rounds. Then
    /// their next round is requested.
    pub(crate) fn comes_round(&self, block: BlockIndex, known: &GuardBlock, unit: u32) -> bool {
        if known.last_run_from(unit).is_empty() {
            return false;
        }
        let mut requests = self.rounds().comes_to(block).peekable();
        let comes = requests.peek().is_some();
        self.prefetch_queue().later(requests);
        comes
    }

    /// As [`Guard::choose`]. A block in which the program continues is gathered with others.
    pub(crate) fn choose_and_gather(
        &self,
        known: &mut GuardBlock,
        block: BlockIndex,
        unit: u32,
        pattern: AccessPattern,
    ) -> Units {
        let gathers = known.state == BlockState::Used && pattern == AccessPattern::Strided && known.goes_on_at(unit);
        let units = self.choose(known, unit, pattern);
        if gathers && !known.unlocked.has(units) {
            let requests = self.rounds().gather(block);
            self.prefetch_queue().later(requests);
        }
        units
    }

    /// The memory of the last served fault is unlocked up to `end`: requests the next memory, and notes what is left
    /// behind.
    pub(crate) fn look_ahead(&self, end: PageIndex) {
        let cap = self.layout().blocks_of(self.unlocked_queue().cap());
        let (next, passed) = {
            let mut prefetcher = self.prefetcher();
            (prefetcher.served(end, cap), prefetcher.passed())
        };
        self.prefetch_queue().soon(next);
        let units = self.layout().all_units();
        let mut queue = self.unlocked_queue();
        passed.for_each(|block| queue.pass(UnlockedUnits { block, units }));
    }

    /// Whether the program has not been there meanwhile.
    pub(crate) fn is_still_expected(&self, request: PrefetchRequest) -> bool {
        match request.part() {
            BlockPart::Block(block) => self.prefetcher().is_ahead(self.layout().span(block).first),
            BlockPart::UnitOf(page) => self.prefetcher().is_ahead(page),
            BlockPart::NextOf(_) => true,
        }
    }

    /// An error is reported, and found again when the program uses the page.
    pub(crate) fn prepare(&self, request: PrefetchRequest, now: Timestamp) {
        let part = request.part();
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
                self.choose_and_gather(&mut known, block, self.layout().unit_of(page), AccessPattern::Strided)
            }
            (BlockPart::NextOf(_), Grain::Units { next, run, at }) if self.has_room_for(next, at) => {
                self.unlocked_queue().pass(UnlockedUnits { block, units: Units::run(0, next - run) });
                self.choose(&mut known, next, AccessPattern::Strided)
            }
            (BlockPart::NextOf(_), _) => return self.rounds().forget(block),
        };
        match request {
            PrefetchRequest::Verify(_) => self.make_ready(block, &mut known, units, now),
            PrefetchRequest::Unlock(_) if known.unlocked.has(units) => {}
            PrefetchRequest::Unlock(_) => {
                self.counts.add(Counter::Prefetched, 1);
                self.unlock_units(block, &mut known, units, now, Why::Ahead);
            }
        }
    }

    /// Whether there are units from `next` on, and room for them beside all that was unlocked since `at`, which is in
    /// use.
    fn has_room_for(&self, next: u32, at: u64) -> bool {
        let queue = self.unlocked_queue();
        let since = queue.ever() - at;
        next < self.layout().all_units().count() && since <= queue.cap() as u64 * IN_USE.0 / IN_USE.1
    }

    /// Pre-verifies locked units that the program is about to use. An error is reported, and found again then.
    fn make_ready(&self, block: BlockIndex, known: &mut GuardBlock, units: Units, now: Timestamp) {
        let units = units & self.table.locked(known);
        if units.is_empty() || self.verify(block, known, units) != Verified::Right {
            return;
        }
        known.pre_verified |= units;
        self.counts.add(Counter::Unlocked, self.layout().pages_of(units));
        self.unlocked_queue().prefetched(UnlockedUnits { block, units }, now);
    }
}
