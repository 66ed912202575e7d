//! The way back: which blocks were taken offline, and in which zone each was.
//!
//! **Problem.** An offline block has no zone; brought back by default, memory for programs could become memory for the
//! kernel, which cannot be emptied again. **Idea.** Write the zone down before the block goes. **Why this way.** The
//! record may name a block that never went; it never lacks one that did.

use rampart_linux::{BlockZones, HotplugState, MemoryBlock, MemoryBlocks, OnlineUse};
use rampart_memory::HotplugBlock;
use serde::{Deserialize, Serialize};

/// Blocks that Rampart took offline, or tried to, since the machine started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfflineRecord {
    /// The blocks, ascending.
    pub blocks: Vec<OfflineBlock>,
}

/// A block of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfflineBlock {
    /// The kernel's number.
    pub number: HotplugBlock,
    /// The zone in which it was.
    pub zone: String,
}

impl OfflineRecord {
    /// Adds a block that is online in one zone; any other is ignored, as it cannot go.
    pub fn add(&mut self, block: &MemoryBlock) {
        let BlockZones::In(zone) = &block.zones else { return };
        let entry = OfflineBlock { number: block.number, zone: zone.clone() };
        match self.blocks.binary_search_by_key(&block.number, |block| block.number) {
            Ok(found) => self.blocks[found] = entry,
            Err(place) => self.blocks.insert(place, entry),
        }
    }

    /// Drops the blocks that are not offline.
    pub fn keep_offline(&mut self, now: &MemoryBlocks) {
        let is_offline = |number| {
            let state = |block: &MemoryBlock| block.number == number && block.state != HotplugState::Online;
            now.blocks.iter().any(state)
        };
        self.blocks.retain(|block| is_offline(block.number));
    }

    /// The block with this number.
    #[must_use]
    pub fn of(&self, number: HotplugBlock) -> Option<&OfflineBlock> {
        let found = self.blocks.binary_search_by_key(&number, |block| block.number);
        found.ok().map(|found| &self.blocks[found])
    }
}

impl OfflineBlock {
    /// For what the block must come online to be in its former zone.
    #[must_use]
    pub fn online_use(&self) -> OnlineUse {
        if self.zone == "Movable" { OnlineUse::Movable } else { OnlineUse::Kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::Bytes;

    fn block(number: u32, state: HotplugState, zone: &str) -> MemoryBlock {
        MemoryBlock { number: HotplugBlock(number), state, zones: BlockZones::In(zone.to_owned()), node: None }
    }

    #[test]
    fn a_record_has_each_block_once_with_its_last_zone() {
        let mut record = OfflineRecord::default();
        for (number, zone) in [(9, "Normal"), (3, "Movable"), (9, "Movable"), (3, "DMA32")] {
            record.add(&block(number, HotplugState::Online, zone));
        }
        record.add(&MemoryBlock { zones: BlockZones::Several, ..block(4, HotplugState::Online, "") });
        let seen: Vec<_> = record.blocks.iter().map(|block| (block.number.0, block.zone.as_str())).collect();
        assert_eq!(seen, [(3, "DMA32"), (9, "Movable")]);
        let uses = [3, 9].map(|number| record.of(HotplugBlock(number)).unwrap().online_use());
        assert_eq!(uses, [OnlineUse::Kernel, OnlineUse::Movable]);
    }

    #[test]
    fn a_block_that_is_online_needs_no_way_back() {
        let mut record = OfflineRecord::default();
        (1..=4).for_each(|number| record.add(&block(number, HotplugState::Online, "Normal")));
        let states = [HotplugState::Online, HotplugState::Offline, HotplugState::GoingOffline];
        let blocks = (1..).zip(states).map(|(number, state)| block(number, state, "Normal")).collect();
        record.keep_offline(&MemoryBlocks { size: Bytes::from_mib(128), blocks });
        assert_eq!(record.blocks.iter().map(|block| block.number.0).collect::<Vec<_>>(), [2, 3]);
    }
}
