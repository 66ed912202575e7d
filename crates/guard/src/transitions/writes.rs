//! Pages that are only read keep their codes.
//!
//! **Problem.** A program that goes through a matrix again and again only reads it; making its codes anew each time
//! costs as much as verifying it. But a write that goes unnoticed would look like a memory error, and would be
//! "corrected". **Idea.** Memory that is unlocked for a read is watched: its first write stops, as a fault does
//! ([`Guard::written`]), and until then the codes stay right. **Why this way.** Only an engine that unlocks and stops
//! writes in one step can guarantee that no write came before ([`GuardEngine::unlock_watched`]). A write to watched
//! memory costs a fault, so recently written memory is not watched for a while.
//!
//! Source: [Fiala15, 4.3]: new codes for written pages.

use crate::engine::{EngineRefusal, GuardEngine, Writes};
use crate::state::layout::{BlockIndex, PageIndex, PageSpan};
use crate::state::table::GuardBlock;
use crate::state::units::Units;

use super::{FaultOutcome, Guard};

/// A block that was written is unlocked so often without being watched.
const UNWATCHED: u8 = 8;

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// A thread waits to write to a watched page: it goes on.
    pub fn written(&self, page: PageIndex) -> FaultOutcome {
        let Some(block) = self.layout().block_of(page) else { return FaultOutcome::Elsewhere };
        let began = self.clock.stopwatch();
        let mut known = self.table.lock(block);
        known.unwatched = UNWATCHED;
        self.unwatch(block, &mut known, self.layout().all_units());
        // Another thread may have written to it first, or it is locked by now: this thread tries again.
        self.engine.allow_writes(PageSpan::of_page(page));
        drop(known);
        self.waited(self.took(began));
        FaultOutcome::GoesOn
    }

    /// Unlocks units with right codes, for a program that may only read them.
    pub(super) fn unlock_to_read(&self, known: &mut GuardBlock, span: PageSpan) -> Result<(), EngineRefusal> {
        if self.engine.unlock_watched(span)? == Writes::Stop {
            known.watched |= self.layout().units_of(span);
        }
        Ok(())
    }

    /// Whether the program may only read the units. It does not if it waits to write.
    pub(super) fn may_only_read(&self, known: &mut GuardBlock, writes: bool) -> bool {
        if writes {
            known.unwatched = UNWATCHED;
        }
        let watch = known.unwatched == 0;
        known.unwatched = known.unwatched.saturating_sub(1);
        watch
    }

    /// Lets writes to the watched ones of these units go on; their codes are made anew.
    pub(super) fn unwatch(&self, block: BlockIndex, known: &mut GuardBlock, units: Units) {
        let watched = known.watched & units;
        self.layout().spans(block, watched).for_each(|span| self.engine.allow_writes(span));
        known.watched -= watched;
    }
}
