//! Programs that go through many blocks in turn, some units of each, and come back for the next units.
//!
//! **Problem.** A transposition or a transformation along the slowest dimension of an array goes from plane to plane,
//! and uses a little of each; then it begins anew, a little farther in each plane. To [`streams`](super::streams) each
//! round is a stride of its own, which wants all its units at once, while the time of a whole round was left to prepare
//! them. **Idea.** Blocks of which units are wanted in their order are gathered, some that are wanted one after the
//! other in a group. Of each of the group the next units are opened for the next round; of the first they are only
//! verified, so the program's fault there, which is short, tells that the next round has come to this group. **Why this
//! way.** One fault a group and round is all that it costs, and no more than one round is prepared before the program
//! gets there, however slow it is.

use std::collections::HashMap;

use crate::state::layout::BlockIndex;

use super::{BlockPart, Want};

/// Blocks of a group.
const GROUP: usize = 8;

/// Groups that are kept; beyond that, all are forgotten.
const GROUPS: usize = 512;

/// Blocks that are gone through in rounds.
#[derive(Clone, Debug, Default)]
pub struct BlockRounds {
    /// By the first of each.
    groups: HashMap<BlockIndex, Vec<BlockIndex>>,
    /// The first of the group of each.
    first: HashMap<BlockIndex, BlockIndex>,
    gathered: Vec<BlockIndex>,
}

impl BlockRounds {
    /// The program wanted units of a block that were ready. What to do for the next round, if it comes to a group by
    /// that.
    pub fn comes_to(&self, block: BlockIndex) -> impl Iterator<Item = Want> + use<> {
        let group = self.groups.get(&block).cloned().unwrap_or_default();
        group.into_iter().map(move |other| {
            if other == block { Want::Verify(BlockPart::NextOf(other)) } else { Want::Open(BlockPart::NextOf(other)) }
        })
    }

    /// Units of a block were wanted which follow those that were wanted before, and nobody had prepared them. What to
    /// do for the next round, if that makes a group.
    pub fn gather(&mut self, block: BlockIndex) -> impl Iterator<Item = Want> + use<> {
        self.forget(block);
        self.gathered.push(block);
        if self.gathered.len() < GROUP {
            return self.comes_to(block);
        }
        if self.groups.len() >= GROUPS {
            (self.groups, self.first) = Default::default();
        }
        let group = std::mem::take(&mut self.gathered);
        let first = group[0];
        self.first.extend(group.iter().map(|&block| (block, first)));
        self.groups.insert(first, group);
        self.comes_to(first)
    }

    /// The group of a block is none any more.
    pub fn forget(&mut self, block: BlockIndex) {
        self.gathered.retain(|&other| other != block);
        let Some(first) = self.first.get(&block) else { return };
        for other in self.groups.remove(first).expect("the group of the first") {
            self.first.remove(&other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(rounds: &mut BlockRounds, blocks: std::ops::Range<u64>) -> Vec<Want> {
        blocks.flat_map(|block| rounds.gather(BlockIndex(block))).collect()
    }

    /// The next of each, of which the first is only verified.
    fn next_of(blocks: std::ops::Range<u64>) -> Vec<Want> {
        let part = |block| BlockPart::NextOf(BlockIndex(block));
        let first = blocks.start;
        blocks.map(|block| if block == first { Want::Verify(part(block)) } else { Want::Open(part(block)) }).collect()
    }

    #[test]
    fn blocks_that_are_wanted_after_each_other_are_a_group_and_its_first_tells_that_its_turn_has_come() {
        let mut rounds = BlockRounds::default();
        assert_eq!(gathered(&mut rounds, 0..7), []);
        assert_eq!(gathered(&mut rounds, 7..12), next_of(0..8));
        assert_eq!(rounds.comes_to(BlockIndex(0)).collect::<Vec<_>>(), next_of(0..8));
        assert_eq!(rounds.comes_to(BlockIndex(3)).count() + rounds.comes_to(BlockIndex(9)).count(), 0);
    }

    #[test]
    fn a_block_that_is_gathered_again_breaks_up_its_group() {
        let mut rounds = BlockRounds::default();
        gathered(&mut rounds, 0..16);
        gathered(&mut rounds, 3..4);
        assert_eq!(rounds.comes_to(BlockIndex(0)).count(), 0);
        assert_eq!(rounds.comes_to(BlockIndex(8)).collect::<Vec<_>>(), next_of(8..16));
        assert_eq!(gathered(&mut rounds, 20..27)[1], Want::Open(BlockPart::NextOf(BlockIndex(20))));
    }

    #[test]
    fn no_more_groups_are_kept_than_may_be() {
        let mut rounds = BlockRounds::default();
        let groups = GROUPS as u64 + 1;
        gathered(&mut rounds, 0..groups * 8);
        assert_eq!((rounds.groups.len(), rounds.first.len()), (1, 8));
        assert_eq!(rounds.comes_to(BlockIndex((groups - 1) * 8)).count(), 8);
    }
}
