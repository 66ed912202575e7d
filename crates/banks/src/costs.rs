//! What it costs to empty a bank, with all banks that are switched only together with it (its set).

use std::collections::{BTreeMap, BTreeSet};

use rampart_linux::HotplugState;
use rampart_memory::{Bank, Bytes};

use crate::layout::BankLayout;
use crate::survey::{BlockSurvey, MemorySurvey};

/// What it costs to empty each bank. A set counts as one bank, its lowest.
pub struct BankCosts<'a> {
    layout: &'a BankLayout,
    /// Bytes to move, of banks that can be emptied wholly.
    to_move: BTreeMap<Bank, u64>,
    /// Banks with something that stays.
    stuck: BTreeSet<Bank>,
    /// Banks with retired frames.
    bad: BTreeSet<Bank>,
}

impl<'a> BankCosts<'a> {
    /// The costs of all banks.
    pub fn of(survey: &'a MemorySurvey) -> Self {
        let layout = &survey.banks;
        let mut costs = Self { layout, to_move: BTreeMap::new(), stuck: BTreeSet::new(), bad: BTreeSet::new() };
        for block in &survey.blocks {
            for bank in sets(layout, block) {
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

    /// The rank of a block, the least first: bad memory, then what the host can have back, then banks that go wholly,
    /// then what moves least.
    pub fn of_block(&self, block: &BlockSurvey) -> (bool, bool, bool, u64, Bytes) {
        let any = |set: &BTreeSet<Bank>| sets(self.layout, block).iter().any(|bank| set.contains(bank));
        let to_move =
            sets(self.layout, block).iter().map(|bank| self.to_move.get(bank).copied().unwrap_or_default()).sum();
        (!any(&self.bad), !block.is_of_virtio_mem(), any(&self.stuck), to_move, block.uses.movable)
    }
}

/// The sets in which a block lies, each once.
fn sets(layout: &BankLayout, block: &BlockSurvey) -> BTreeSet<Bank> {
    (block.banks.0.0..=block.banks.1.0).map(|bank| layout.set_of(Bank(bank))).collect()
}
