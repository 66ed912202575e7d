//! Re-placement: pages that the program holds for long move to recently tested frames.
//!
//! **Problem.** A frame's test is good for a while, and a page may stay on its frame for as long as the program runs.
//! **Idea.** While a block is locked its pages are exchanged: their content moves to frames of the tested-frame pool
//! and is verified there against its codes; the old frames are tested like any other memory, without hurry, and join
//! the pool for the next block. **Why this way.** A test in place holds a block for milliseconds, in which the program
//! may wait for it, and keeps its content in other memory meanwhile. An exchange holds it for the time of one copy, and
//! a frame that fails a test has no content to lose.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rampart_memory::Timestamp;

use crate::engine::{FrameHistory, GuardEngine};
use crate::policy::backoff::wait_after;
use crate::state::layout::BlockIndex;
use crate::state::table::{Grain, GuardBlock};
use crate::telemetry::counts::Counter;

use super::Guard;
use super::verify::Verified;

/// Blocks per step.
const STEP: u64 = 4096;

/// The delay before a refused re-placement is retried; two minutes at most.
const RETRY: Duration = Duration::from_millis(100);

/// The progress of a round through all blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplacementRound {
    next: u64,
}

/// The result of a step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The block is on tested frames now.
    RePlaced,
    /// A block is due, and there are no tested frames.
    NoFrames,
    /// No block was due; the round goes on.
    Nothing,
    /// The round is over.
    RoundDone,
}

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// Continues a round, up to the next locked block whose frames were not tested within `lifetime`.
    pub fn re_place(&self, round: &mut ReplacementRound, lifetime: Duration, now: Timestamp) -> Replacement {
        for _ in 0..STEP {
            if round.next >= self.reach.load(Ordering::Relaxed) {
                round.next = 0;
                return Replacement::RoundDone;
            }
            let block = BlockIndex(round.next);
            let mut known = self.table.lock(block);
            let good = known.tested.is_some_and(|tested| now.since(tested) < lifetime);
            let waits = known.refused.is_some_and(|(refusals, at)| now.since(at) < wait_after(RETRY, refusals - 1));
            let replacement = if self.table.locked(&known) != self.layout().all_units() || good || waits {
                Replacement::Nothing
            } else {
                self.re_place_known(block, &mut known, now)
            };
            if replacement != Replacement::NoFrames {
                round.next += 1;
            }
            if replacement != Replacement::Nothing {
                return replacement;
            }
        }
        Replacement::Nothing
    }

    /// Verified before, so that an error is reported with its frame; and after, in its new place.
    fn re_place_known(&self, block: BlockIndex, known: &mut GuardBlock, now: Timestamp) -> Replacement {
        let all = self.layout().all_units();
        if self.verify(block, known, all) == Verified::Stop {
            // The error was reported, and stops the program once it uses the page. Until then it need not be reported
            // again.
            known.tested = Some(now);
            return Replacement::Nothing;
        }
        match self.engine.re_place(self.layout().span(block)) {
            Ok(FrameHistory::Tested(at)) => {
                (known.tested, known.refused) = (Some(at), None);
                self.counts.add(Counter::RePlaced, u64::from(self.layout().block_pages()));
                known.grain = Grain::NEW;
                self.verify(block, known, all);
                Replacement::RePlaced
            }
            Ok(FrameHistory::Same | FrameHistory::Untested) => Replacement::NoFrames,
            Err(_) => {
                let refusals = known.refused.map_or(0, |(refusals, _)| refusals) + 1;
                known.refused = Some((refusals, now));
                self.counts.add(Counter::Refused, 1);
                Replacement::Nothing
            }
        }
    }
}
