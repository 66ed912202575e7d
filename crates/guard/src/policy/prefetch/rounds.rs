//! Programs that visit many blocks in turn, some units of each, and come back for the next units.
//!
//! **Problem.** A transposition or a transformation along the slowest dimension of an array goes from plane to plane,
//! and uses a little of each; then it begins anew, a little further in each plane. To [`streams`](super::streams) each
//! round is a stride of its own that needs all its units at once, although a whole round's time was available to
//! prepare them. **Idea.** Blocks whose units are used in order are gathered, adjacent ones in a group. The next units
//! of each block of a group are unlocked for the next round; those of its first block are only verified, so the
//! program's short fault there shows that the next round has come to this group. **Why this way.** It costs only one
//! fault per group and round, and at most one round is prepared in advance, however slow the program is.

use std::collections::HashMap;

use crate::state::layout::BlockIndex;

use super::{BlockPart, PrefetchRequest};

/// Blocks of a group.
const GROUP: usize = 8;

/// The most groups; beyond that, all are forgotten.
const GROUPS: usize = 512;

/// Blocks that are visited in rounds.
#[derive(Clone, Debug, Default)]
pub struct BlockRounds {
    /// By the first block of each group.
    groups: HashMap<BlockIndex, Vec<BlockIndex>>,
    /// The first block of each block's group.
    first: HashMap<BlockIndex, BlockIndex>,
    gathered: Vec<BlockIndex>,
}

impl BlockRounds {
    /// The program used pre-verified units of a block. Returns the requests for the next round, if a group begins here.
    pub fn comes_to(&self, block: BlockIndex) -> impl Iterator<Item = PrefetchRequest> + use<> {
        let group = self.groups.get(&block).cloned().unwrap_or_default();
        group.into_iter().map(move |other| {
            if other == block {
                PrefetchRequest::Verify(BlockPart::NextOf(other))
            } else {
                PrefetchRequest::Unlock(BlockPart::NextOf(other))
            }
        })
    }

    /// The program used units of a block after the previous ones, and they were not prepared. Returns the requests for
    /// the next round, if that completes a group.
    pub fn gather(&mut self, block: BlockIndex) -> impl Iterator<Item = PrefetchRequest> + use<> {
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

    /// Dissolves the group of a block.
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

    fn gathered(rounds: &mut BlockRounds, blocks: std::ops::Range<u64>) -> Vec<PrefetchRequest> {
        blocks.flat_map(|block| rounds.gather(BlockIndex(block))).collect()
    }

    /// The next units of each block, only verified for the first.
    fn next_of(blocks: std::ops::Range<u64>) -> Vec<PrefetchRequest> {
        let part = |block| BlockPart::NextOf(BlockIndex(block));
        let first = blocks.start;
        blocks
            .map(|block| {
                if block == first { PrefetchRequest::Verify(part(block)) } else { PrefetchRequest::Unlock(part(block)) }
            })
            .collect()
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
        assert_eq!(rounds.comes_to(BlockIndex(0)).collect::<Vec<_>>(), next_of(0..8), "beside the second group");
        gathered(&mut rounds, 3..4);
        assert_eq!(rounds.comes_to(BlockIndex(0)).count(), 0);
        assert_eq!(rounds.comes_to(BlockIndex(8)).collect::<Vec<_>>(), next_of(8..16));
        assert_eq!(gathered(&mut rounds, 20..27)[1], PrefetchRequest::Unlock(BlockPart::NextOf(BlockIndex(20))));
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
