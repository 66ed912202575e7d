//! Pages that the program holds for long, put on frames that were tested of late.
//!
//! **Problem.** A test of a frame is good for a while, and a page may lie on its frame for as long as the program runs.
//! **Idea.** While a block is locked its pages are exchanged: their content goes to frames from the stock, which were
//! just tested, is verified there against its codes, and the frames that it was on are tested as any other memory: at
//! leisure, and then they are the stock for the next block. **Why this way.** A test in place holds a block for
//! milliseconds, in which the program waits if it wants it, and keeps its content in other memory meanwhile; an
//! exchange holds it for as long as one copy, and what fails a test has no content to lose.

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

/// Blocks looked at in one step.
const STEP: u64 = 4096;

/// A block that could not be put on tested frames is tried again after this, and after two minutes at most.
const RETRY: Duration = Duration::from_millis(100);

/// How far a round through all blocks has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplacementRound {
    next: u64,
}

/// What a step of a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// A block is on tested frames now.
    Renewed,
    /// One ought to be, and there are no tested frames.
    NoFrames,
    /// None was found that ought to be; the round goes on.
    Nothing,
    /// The round is over.
    RoundDone,
}

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// Goes on with a round, to the next locked block whose frames were not tested within `lifetime`.
    pub fn renew(&self, round: &mut ReplacementRound, lifetime: Duration, now: Timestamp) -> Replacement {
        for _ in 0..STEP {
            if round.next >= self.reach.load(Ordering::Relaxed) {
                round.next = 0;
                return Replacement::RoundDone;
            }
            let block = BlockIndex(round.next);
            let mut known = self.table.lock(block);
            let good = known.tested.is_some_and(|tested| now.since(tested) < lifetime);
            let waits = known.refused.is_some_and(|(refusals, at)| now.since(at) < wait_after(RETRY, refusals - 1));
            let renewal = if self.table.locked(&known) != self.layout().all_units() || good || waits {
                Replacement::Nothing
            } else {
                self.renew_known(block, &mut known, now)
            };
            if renewal != Replacement::NoFrames {
                round.next += 1;
            }
            if renewal != Replacement::Nothing {
                return renewal;
            }
        }
        Replacement::Nothing
    }

    /// Verified before, so that what memory did is told of the frame that did it; and after, in its new place.
    fn renew_known(&self, block: BlockIndex, known: &mut GuardBlock, now: Timestamp) -> Replacement {
        let all = self.layout().all_units();
        if self.verify(block, known, all) == Verified::Stop {
            // It was told, and stops the program once it wants the page. Until then it need not be told again.
            known.tested = Some(now);
            return Replacement::Nothing;
        }
        match self.engine.renew(self.layout().span(block)) {
            Ok(FrameHistory::Tested(at)) => {
                (known.tested, known.refused) = (Some(at), None);
                self.counts.add(Counter::Renewed, u64::from(self.layout().block_pages()));
                known.grain = Grain::NEW;
                self.verify(block, known, all);
                Replacement::Renewed
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
