//! Consolidation: which block is emptied next, and when to stop [Panwar15, 4.3].
//!
//! **Problem.** Each block that goes offline pushes its pages into the others, so that a wrong choice moves pages twice
//! or leaves programs without memory. **Idea.** Take the blocks of the bank that is cheapest to empty, one at a time,
//! and look again after each. Each node keeps a reserve of free memory, and memory that the kernel can use. A block
//! that cannot be emptied now is tried again later, each time after twice the rest. **Why this way.** The kernel takes
//! one block offline at a time and chooses itself where pages go, so a longer plan would be out of date at once.
//!
//! Blocks of banks with retired frames go first: memory that failed once is the best to be without.
//!
//! The kernel may move a page into the block that goes next. As the cheapest blocks go first, little moves twice;
//! [`MovedOut`] says how much at most.
//!
//! Programs that wait for memory end it, whatever seems to be free: the reserve is a forecast, their wait is a fact.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use rampart_linux::HotplugState;
use rampart_memory::{Bytes, HotplugBlock, Node};
use serde::Serialize;

use crate::attempts::FailedAttempts;
use crate::costs::BankCosts;
use crate::survey::{BlockSurvey, MemorySurvey};

/// A block is tried so often.
const MOST_ATTEMPTS: u32 = 3;

/// What a consolidation is to reach, and to spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsolidationGoal {
    /// This much memory is to be offline at least.
    pub target: Bytes,
    /// This share of each node's memory stays free, in per cent.
    pub reserve_percent: u32,
    /// It ends once programs wait for memory for more than this share of the time, in per cent.
    pub pressure_percent: u32,
}

/// A consolidation under way: the goal, and the attempts that failed.
#[derive(Clone, Debug)]
pub struct Consolidation {
    goal: ConsolidationGoal,
    failed: FailedAttempts,
}

/// What moved out of blocks that went.
///
/// What lies in a block when it goes, and did not when the consolidation began, came out of a block that went before,
/// or a program has allocated it since: the kernel does not say which. So all of it counts as moved twice, up to what
/// had moved until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedOut {
    at_first: BTreeMap<HotplugBlock, Bytes>,
    /// All that moved, each time that it did.
    pub moved: Bytes,
    /// Of this, what moved for the second time or more, at most.
    pub twice: Bytes,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Take this block offline.
    Offline(HotplugBlock),
    /// Wait until this time: the blocks that are left were tried a short time ago.
    Wait(Duration),
    /// Nothing more.
    End(ConsolidationEnd),
}

/// Why a consolidation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum ConsolidationEnd {
    /// the target is reached
    TargetReached,
    /// programs waited for memory for longer than the limit permits
    Pressure,
    /// without another block, too little memory would stay free
    Reserve,
    /// no other block can be emptied
    NoCandidate,
    /// stopped by a signal
    Stopped,
}

impl ConsolidationGoal {
    /// Whether programs wait for memory for too large a share of the time; no if that is not known.
    #[must_use]
    pub fn is_pressed(&self, waited: Option<f64>) -> bool {
        waited.is_some_and(|share| share * 100.0 > f64::from(self.pressure_percent))
    }
}

impl MovedOut {
    /// Nothing has moved yet.
    #[must_use]
    pub fn begin(survey: &MemorySurvey) -> Self {
        let at_first = survey.blocks.iter().map(|block| (block.number, block.uses.movable)).collect();
        Self { at_first, moved: Bytes::ZERO, twice: Bytes::ZERO }
    }

    /// Notes that a block went, which had this memory to move.
    pub fn went(&mut self, block: HotplugBlock, to_move: Bytes) {
        let at_first = self.at_first.get(&block).copied().unwrap_or_default();
        let came = to_move.saturating_sub(at_first).min(self.moved);
        self.twice = Bytes::new(self.twice.get() + came.get());
        self.moved = Bytes::new(self.moved.get() + to_move.get());
    }
}

impl Consolidation {
    /// Begins.
    #[must_use]
    pub fn new(goal: ConsolidationGoal) -> Self {
        Self { goal, failed: FailedAttempts::default() }
    }

    /// Decides what to do next. `waited` is the largest share of the time, up to 1, for which programs waited for
    /// memory so far; `None` if the kernel does not say. `now` is the time since the beginning.
    #[must_use]
    pub fn next(&self, survey: &MemorySurvey, waited: Option<f64>, now: Duration) -> NextStep {
        if survey.totals.offline >= self.goal.target {
            return NextStep::End(ConsolidationEnd::TargetReached);
        }
        if self.goal.is_pressed(waited) {
            return NextStep::End(ConsolidationEnd::Pressure);
        }
        let may_go = |block: &&BlockSurvey| block.obstacle.is_none() && self.failed.count(block.number) < MOST_ATTEMPTS;
        let candidates: Vec<&BlockSurvey> = survey.blocks.iter().filter(may_go).collect();
        if candidates.is_empty() {
            return NextStep::End(ConsolidationEnd::NoCandidate);
        }
        let costs = BankCosts::of(survey);
        let spared = candidates.into_iter().filter(|block| self.leaves_enough(survey, block));
        let Some((next, block)) =
            spared.map(|block| (self.failed.next(block.number).max(now), block)).min_by_key(|(next, block)| {
                (*next, self.failed.count(block.number), costs.of_block(block), Reverse(block.number))
            })
        else {
            return NextStep::End(ConsolidationEnd::Reserve);
        };
        if next > now { NextStep::Wait(next) } else { NextStep::Offline(block.number) }
    }

    /// Notes that an attempt that ended at `now` failed.
    pub fn failed(&mut self, block: HotplugBlock, now: Duration) {
        self.failed.note(block, now);
    }

    /// Whether the block's node keeps its reserve, and memory for the kernel, without the block.
    fn leaves_enough(&self, survey: &MemorySurvey, block: &BlockSurvey) -> bool {
        let size = survey.block.get();
        let of_node: Vec<&BlockSurvey> = on(survey, block.node).collect();
        let free: u64 = of_node.iter().map(|block| block.uses.free.get()).sum();
        let reserve = of_node.len() as u64 * size / 100 * u64::from(self.goal.reserve_percent);
        // Its movable pages take free memory elsewhere, and its free memory is gone: together the whole block.
        let keeps_reserve = free >= reserve + block.uses.free.get() + block.uses.movable.get();
        let serves_kernel = |other: &&&BlockSurvey| {
            other.state == HotplugState::Online && other.number != block.number && !other.is_movable_only()
        };
        keeps_reserve && (block.is_movable_only() || of_node.iter().any(|other| serves_kernel(&other)))
    }
}

fn on(survey: &MemorySurvey, node: Option<Node>) -> impl Iterator<Item = &BlockSurvey> {
    survey.blocks.iter().filter(move |block| block.node == node)
}

#[cfg(test)]
mod tests;
