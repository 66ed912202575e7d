//! What is only read keeps its codes.
//!
//! **Problem.** A program that goes through a matrix again and again reads it and does not write it; to make its codes
//! anew each time is as much work as to verify it. But what was written and is not noticed would be taken for an error
//! of the memory, and "corrected". **Idea.** What the program opens to read is watched: its first write stops, as a
//! fault does ([`Guard::written`]), and until then the codes stay right. **Why this way.** Only an engine that opens
//! and stops writes in one step can promise that none went before ([`GuardEngine::open_watched`]). A write to what is
//! watched costs a fault, so what was written of late is not watched for a while.
//!
//! Source: [Fiala15, 4.3]: codes are made anew for what was written.

use crate::engine::{EngineRefusal, GuardEngine, Writes};
use crate::state::layout::{BlockIndex, PageIndex, PageSpan};
use crate::state::table::GuardBlock;
use crate::state::units::Units;

use super::{FaultOutcome, Guard};

/// A block that was written is opened so often without being watched.
const UNWATCHED: u8 = 8;

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// A thread waits to write to a page that is watched: it goes on.
    pub fn written(&self, page: PageIndex) -> FaultOutcome {
        let Some(block) = self.layout().block_of(page) else { return FaultOutcome::Elsewhere };
        let began = self.clock.stopwatch();
        let mut known = self.table.lock(block);
        known.unwatched = UNWATCHED;
        self.unwatch(block, &mut known, self.layout().all_units());
        // Somebody else may have written to it first, or it is locked by now: its thread tries again.
        self.engine.allow_writes(PageSpan::of_page(page));
        drop(known);
        self.waited(self.took(began));
        FaultOutcome::GoesOn
    }

    /// Opens units whose codes are right, for a program that may only read them.
    pub(super) fn open_to_read(&self, known: &mut GuardBlock, span: PageSpan) -> Result<(), EngineRefusal> {
        if self.engine.open_watched(span)? == Writes::Stop {
            known.watched |= self.layout().units_of(span);
        }
        Ok(())
    }

    /// Whether the program may well only read what is opened. It does not if it waits to write.
    pub(super) fn may_only_read(&self, known: &mut GuardBlock, writes: bool) -> bool {
        if writes {
            known.unwatched = UNWATCHED;
        }
        let watch = known.unwatched == 0;
        known.unwatched = known.unwatched.saturating_sub(1);
        watch
    }

    /// Writes to these units, as far as they are watched, go on from here, and their codes are made anew.
    pub(super) fn unwatch(&self, block: BlockIndex, known: &mut GuardBlock, units: Units) {
        let watched = known.watched & units;
        self.layout().spans(block, watched).for_each(|span| self.engine.allow_writes(span));
        known.watched -= watched;
    }
}
