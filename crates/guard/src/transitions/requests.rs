//! The program's operations on its memory besides touching it: it hands pages to the kernel, gives them back, and
//! changes their mapping.
//!
//! A guard learns of them beforehand, and works on blocks; so an operation on part of a block unlocks it first.

use std::num::NonZero;

use rampart_memory::Timestamp;

use crate::engine::GuardEngine;
use crate::state::layout::{BlockIndex, PageSpan};
use crate::state::table::{BlockState, Grain, GuardBlock};
use crate::state::units::Units;
use crate::telemetry::counts::Counter;

use super::{FaultOutcome, Guard};

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// A system call is about to use these pages, and would not wait for a fault: they are unlocked and stay so until
    /// [`Guard::release`].
    pub fn hold(&self, span: PageSpan, now: Timestamp) -> FaultOutcome {
        self.make_room(now);
        for (block, part) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            let units = self.around(&known, part);
            if self.unlock_unwatched(block, &mut known, units, now) == FaultOutcome::Stop {
                return FaultOutcome::Stop;
            }
            known.holders += 1;
        }
        FaultOutcome::GoesOn
    }

    /// As [`Guard::hold`], if all of them are already unlocked, which any thread can do. `false`: not all are, and
    /// nothing was done.
    pub fn hold_unlocked(&self, span: PageSpan) -> bool {
        let mut held = 0;
        for (block, part) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            let units = self.layout().units_of(part);
            if !known.unlocked.has(units) || !(known.watched & units).is_empty() {
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
    pub fn release(&self, span: PageSpan) {
        for (block, _) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            known.holders = known.holders.checked_sub(1).expect("what is released was held");
        }
    }

    /// The content of whole blocks is no longer needed: they read as zeros from now on. `false` if the span has parts
    /// of blocks, and nothing is done then; or if some of them are excluded, which stay unchanged.
    pub fn forget(&self, span: PageSpan) -> bool {
        let Some(blocks) = self.layout().whole_blocks(span) else { return false };
        let forgotten = |block| {
            let mut known = self.table.lock(block);
            let kept = known.state == BlockState::Excluded;
            if !kept {
                self.discard(block, &mut known);
            }
            !kept
        };
        blocks.map(forgotten).fold(true, |all, forgotten| all & forgotten)
    }

    /// As [`Guard::forget`], also for excluded blocks: their mapping is as it was before.
    pub fn take_back(&self, span: PageSpan) -> bool {
        let Some(blocks) = self.layout().whole_blocks(span) else { return false };
        blocks.for_each(|block| self.discard(block, &mut self.table.lock(block)));
        true
    }

    fn discard(&self, block: BlockIndex, known: &mut GuardBlock) {
        if known.state == BlockState::Untouched {
            return;
        }
        self.engine.discard(self.layout().span(block));
        self.counts.subtract(Counter::Pages, u64::from(self.layout().block_pages()));
        self.counts.subtract(Counter::Unlocked, self.layout().pages_of(known.unlocked | known.pre_verified));
        (known.state, known.grain) = (BlockState::Untouched, Grain::NEW);
        known.reported.clear();
        (known.unlocked, known.pending, known.pre_verified, known.watched) =
            (Units::NONE, Units::NONE, Units::NONE, Units::NONE);
    }

    /// The program gives pages back to the kernel by itself: they read as zeros from now on, and the rest of their
    /// blocks is unchanged.
    pub fn zero(&self, span: PageSpan, now: Timestamp) -> FaultOutcome {
        for (block, part) in self.layout().parts(span) {
            let mut known = self.table.lock(block);
            if known.state == BlockState::Untouched {
                continue;
            }
            let units = self.around(&known, part);
            if self.unlock_unwatched(block, &mut known, units, now) == FaultOutcome::Stop {
                return FaultOutcome::Stop;
            }
            self.engine.zero(part);
        }
        FaultOutcome::GoesOn
    }

    /// The program is about to change these pages' mapping in a way that a guard cannot follow: they are excluded.
    pub fn leave(&self, span: PageSpan, now: Timestamp) -> FaultOutcome {
        let mut blocks: Vec<_> = self.layout().parts(span).map(|(block, _)| (block, self.table.lock(block))).collect();
        for (block, known) in &mut blocks {
            if self.unlock_unwatched(*block, known, self.layout().all_units(), now) == FaultOutcome::Stop {
                return FaultOutcome::Stop;
            }
        }
        // Excluded blocks stay as the program has them.
        for run in blocks.chunk_by_mut(|(_, one), (_, next)| {
            (one.state == BlockState::Excluded) == (next.state == BlockState::Excluded)
        }) {
            let pages = self.layout().block_pages() as u64 * run.len() as u64;
            let (first, known) = &run[0];
            if known.state == BlockState::Excluded {
                continue;
            }
            let whole =
                PageSpan { first: self.layout().span(*first).first, count: NonZero::new(pages).expect("a run") };
            if let Err(refusal) = self.engine.leave(whole) {
                self.observer.lost(*first, &refusal);
                return FaultOutcome::Stop;
            }
            run.iter_mut().for_each(|(_, known)| known.state = BlockState::Excluded);
        }
        FaultOutcome::GoesOn
    }
}
