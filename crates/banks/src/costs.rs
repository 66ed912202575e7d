//! What it costs to empty a bank.

use std::collections::{BTreeMap, BTreeSet};

use rampart_linux::HotplugState;
use rampart_memory::{Bank, Bytes};

use crate::survey::{BlockSurvey, MemorySurvey};

/// What it costs to empty each bank.
pub struct BankCosts {
    /// Bytes to move, of banks that can be emptied wholly.
    to_move: BTreeMap<Bank, u64>,
    /// Banks with something that stays.
    stuck: BTreeSet<Bank>,
    /// Banks with retired frames.
    bad: BTreeSet<Bank>,
}

impl BankCosts {
    /// The costs of all banks.
    pub fn of(survey: &MemorySurvey) -> Self {
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
    pub fn of_block(&self, block: &BlockSurvey) -> (bool, bool, u64, Bytes) {
        let any = |set: &BTreeSet<Bank>| banks(block).any(|bank| set.contains(&bank));
        let to_move = banks(block).map(|bank| self.to_move.get(&bank).copied().unwrap_or_default()).sum();
        (!any(&self.bad), any(&self.stuck), to_move, block.uses.movable)
    }
}

fn banks(block: &BlockSurvey) -> impl Iterator<Item = Bank> + use<> {
    (block.banks.0.0..=block.banks.1.0).map(Bank)
}
