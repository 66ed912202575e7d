//! Consolidation: which block is emptied next, and when to stop [Panwar15, 4.3].
//!
//! **Problem.** Each block that goes offline pushes its pages into the others, so that a wrong choice moves pages twice
//! or leaves programs without memory. **Idea.** Take the blocks of the bank that is cheapest to empty, one at a time,
//! and look again after each. Each node keeps a reserve of free memory, and memory that the kernel can use. A block
//! that cannot be emptied now is tried again later, each time after twice the rest. **Why this way.** The kernel takes
//! one block offline at a time and chooses itself where pages go, so a longer plan would be out of date at once.
//!
//! Blocks of banks with retired frames go first: memory that failed once is the best to be without.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rampart_linux::{BlockZones, HotplugState};
use rampart_memory::{Bank, Bytes, HotplugBlock, Node};
use serde::Serialize;

use crate::survey::{BlockSurvey, MemorySurvey};

/// A block is tried so often.
const MOST_ATTEMPTS: u32 = 3;

/// The rest after the first failed attempt; it doubles with each.
const FIRST_REST: Duration = Duration::from_secs(1);

/// What a consolidation is to reach, and to spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsolidationGoal {
    /// This much memory is to be offline at least.
    pub target: Bytes,
    /// This share of each node's memory stays free, in per cent.
    pub reserve_percent: u32,
}

/// A consolidation under way: the goal, and the attempts that failed.
#[derive(Clone, Debug)]
pub struct Consolidation {
    goal: ConsolidationGoal,
    failed: BTreeMap<HotplugBlock, FailedAttempts>,
}

#[derive(Clone, Copy, Debug)]
struct FailedAttempts {
    count: u32,
    /// The earliest time of the next attempt.
    next: Duration,
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
    /// without another block, too little memory would stay free
    Reserve,
    /// no other block can be emptied
    NoCandidate,
    /// stopped by a signal
    Stopped,
}

impl Consolidation {
    /// Begins.
    #[must_use]
    pub const fn new(goal: ConsolidationGoal) -> Self {
        Self { goal, failed: BTreeMap::new() }
    }

    /// Decides what to do next. `now` is the time since the beginning.
    #[must_use]
    pub fn next(&self, survey: &MemorySurvey, now: Duration) -> NextStep {
        if survey.totals.offline >= self.goal.target {
            return NextStep::End(ConsolidationEnd::TargetReached);
        }
        let candidates: Vec<&BlockSurvey> =
            survey.blocks.iter().filter(|block| block.obstacle.is_none() && !self.is_given_up(block.number)).collect();
        if candidates.is_empty() {
            return NextStep::End(ConsolidationEnd::NoCandidate);
        }
        let costs = BankCosts::of(survey);
        let spared = candidates.into_iter().filter(|block| self.leaves_enough(survey, block));
        let Some((next, block)) = spared
            .map(|block| (self.next_attempt(block.number).max(now), block))
            .min_by_key(|(next, block)| (*next, costs.of_block(block), Reverse(block.number)))
        else {
            return NextStep::End(ConsolidationEnd::Reserve);
        };
        if next > now { NextStep::Wait(next) } else { NextStep::Offline(block.number) }
    }

    /// Notes that an attempt that ended at `now` failed.
    pub fn failed(&mut self, block: HotplugBlock, now: Duration) {
        let count = self.failed.get(&block).map_or(0, |failed| failed.count) + 1;
        let next = now + FIRST_REST * 2_u32.saturating_pow(count - 1);
        self.failed.insert(block, FailedAttempts { count, next });
    }

    fn is_given_up(&self, block: HotplugBlock) -> bool {
        self.failed.get(&block).is_some_and(|failed| failed.count >= MOST_ATTEMPTS)
    }

    fn next_attempt(&self, block: HotplugBlock) -> Duration {
        self.failed.get(&block).map_or(Duration::ZERO, |failed| failed.next)
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
            other.state == HotplugState::Online && other.number != block.number && !is_movable(other)
        };
        keeps_reserve && (is_movable(block) || of_node.iter().any(|other| serves_kernel(&other)))
    }
}

fn on(survey: &MemorySurvey, node: Option<Node>) -> impl Iterator<Item = &BlockSurvey> {
    survey.blocks.iter().filter(move |block| block.node == node)
}

fn is_movable(block: &BlockSurvey) -> bool {
    matches!(&block.zones, BlockZones::In(zone) if zone == "Movable")
}

/// What it costs to empty each bank.
struct BankCosts {
    /// Bytes to move, of banks that can be emptied wholly.
    to_move: BTreeMap<Bank, u64>,
    /// Banks with something that stays.
    stuck: BTreeSet<Bank>,
    /// Banks with retired frames.
    bad: BTreeSet<Bank>,
}

impl BankCosts {
    fn of(survey: &MemorySurvey) -> Self {
        let mut costs = Self { to_move: BTreeMap::new(), stuck: BTreeSet::new(), bad: BTreeSet::new() };
        for block in &survey.blocks {
            for bank in banks(block) {
                *costs.to_move.entry(bank).or_default() += block.uses.movable.get();
                if block.obstacle.is_some() && block.state != HotplugState::Offline {
                    costs.stuck.insert(bank);
                }
                if block.uses.retired > Bytes::ZERO {
                    costs.bad.insert(bank);
                }
            }
        }
        costs
    }

    /// The rank of a block, the least first: bad memory, then banks that go wholly, then what moves least.
    fn of_block(&self, block: &BlockSurvey) -> (bool, bool, u64, Bytes) {
        let any = |set: &BTreeSet<Bank>| banks(block).any(|bank| set.contains(&bank));
        let to_move = banks(block).map(|bank| self.to_move.get(&bank).copied().unwrap_or_default()).sum();
        (!any(&self.bad), any(&self.stuck), to_move, block.uses.movable)
    }
}

fn banks(block: &BlockSurvey) -> impl Iterator<Item = Bank> + use<> {
    (block.banks.0.0..=block.banks.1.0).map(Bank)
}

#[cfg(test)]
mod tests;
