//! The way back: which blocks were taken offline or put into another zone, and in which zone each was.
//!
//! **Problem.** An offline block has no zone; brought back by default, memory for programs could become memory for the
//! kernel, which cannot be emptied again. **Idea.** Write the zone down before the block first goes. **Why this way.**
//! The record may name a block that never went; it never lacks one that did.

use rampart_linux::{BlockZones, HotplugState, MemoryBlock, MemoryBlocks, OnlineUse};
use rampart_memory::HotplugBlock;
use serde::{Deserialize, Serialize};

/// Blocks that Rampart took offline or put into another zone, or tried to, since the machine started.
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
    /// Adds a block that is online in one zone; any other is ignored, as it cannot go. A block that is on record
    /// already keeps its first zone.
    pub fn add(&mut self, block: &MemoryBlock) {
        let BlockZones::In(zone) = &block.zones else { return };
        let entry = OfflineBlock { number: block.number, zone: zone.clone() };
        if let Err(place) = self.blocks.binary_search_by_key(&block.number, |block| block.number) {
            self.blocks.insert(place, entry);
        }
    }

    /// Drops the blocks that are online in their former zone, and those that are gone: the host of a virtual machine
    /// took them back.
    pub fn drop_returned(&mut self, now: &MemoryBlocks) {
        let is_left =
            |block: &OfflineBlock| now.blocks.iter().any(|now| now.number == block.number && !block.is_back(now));
        self.blocks.retain(is_left);
    }

    /// The block with this number.
    #[must_use]
    pub fn of(&self, number: HotplugBlock) -> Option<&OfflineBlock> {
        let found = self.blocks.binary_search_by_key(&number, |block| block.number);
        found.ok().map(|found| &self.blocks[found])
    }
}

impl OfflineBlock {
    /// Whether this is the block, online in its former zone.
    #[must_use]
    pub fn is_back(&self, now: &MemoryBlock) -> bool {
        now.number == self.number
            && now.state == HotplugState::Online
            && matches!(&now.zones, BlockZones::In(zone) if *zone == self.zone)
    }

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
    fn a_record_has_each_block_once_with_its_first_zone() {
        let mut record = OfflineRecord::default();
        for (number, zone) in [(9, "Normal"), (3, "Movable"), (9, "Movable"), (3, "DMA32")] {
            record.add(&block(number, HotplugState::Online, zone));
        }
        record.add(&MemoryBlock { zones: BlockZones::Several, ..block(4, HotplugState::Online, "") });
        let seen: Vec<_> = record.blocks.iter().map(|block| (block.number.0, block.zone.as_str())).collect();
        assert_eq!(seen, [(3, "Movable"), (9, "Normal")]);
        let uses = [3, 9].map(|number| record.of(HotplugBlock(number)).unwrap().online_use());
        assert_eq!(uses, [OnlineUse::Movable, OnlineUse::Kernel]);
    }

    #[test]
    fn a_block_that_is_online_in_its_former_zone_needs_no_way_back() {
        let mut record = OfflineRecord::default();
        (1..=5).for_each(|number| record.add(&block(number, HotplugState::Online, "Normal")));
        let states = [HotplugState::Online, HotplugState::Offline, HotplugState::GoingOffline];
        let mut blocks: Vec<_> = (1..).zip(states).map(|(number, state)| block(number, state, "Normal")).collect();
        blocks.push(block(4, HotplugState::Online, "Movable"));
        record.drop_returned(&MemoryBlocks { size: Bytes::from_mib(128), blocks });
        assert_eq!(record.blocks.iter().map(|block| block.number.0).collect::<Vec<_>>(), [2, 3, 4], "block 5 is gone");
    }
}
