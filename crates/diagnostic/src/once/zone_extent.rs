//! How much of each kind of memory was tested, where programs have a zone of their own.
//!
//! **Problem.** The kernel moves pinned pages out of that zone (`ZONE_MOVABLE`), so a test may seem whole and have
//! reached none of it. **Idea.** Count the tested frames by the zones of their memory blocks. **Why this way.** Frame
//! numbers do not lie: whatever the kernel does with pages, what is counted was tested.

use rampart_linux::{HotplugState, MemoryBlocks};
use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use serde::Serialize;

use crate::testing::seen::FrameSet;

/// The tested part of a kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneExtent {
    /// Whether only programs get it.
    pub only_programs: bool,
    /// Its memory blocks that are online.
    pub online: Bytes,
    /// Different frames tested completely at least once.
    pub tested: Bytes,
}

impl ZoneExtent {
    /// The memory that only programs get, and the rest.
    #[must_use]
    pub fn of(blocks: &MemoryBlocks, tested: &FrameSet) -> Vec<Self> {
        let kind = |only_programs| {
            let is_of_kind = |online: bool, movable: bool| online && movable == only_programs;
            let mut extent = Self { only_programs, online: Bytes::ZERO, tested: Bytes::ZERO };
            for block in &blocks.blocks {
                if !is_of_kind(block.state != HotplugState::Offline, block.is_movable_only()) {
                    continue;
                }
                let first = u64::from(block.number.0) * blocks.frames().get();
                let frames = (first..first + blocks.frames().get()).filter_map(Frame::new);
                let count = frames.filter(|frame| tested.contains(*frame)).count() as u64;
                extent.online = Bytes::new(extent.online.get() + blocks.size.get());
                extent.tested = Bytes::new(extent.tested.get() + count * FRAME_BYTES);
            }
            extent
        };
        vec![kind(true), kind(false)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_linux::{BlockZones, MemoryBlock};
    use rampart_memory::HotplugBlock;

    #[test]
    fn tested_frames_count_where_they_are() {
        let block = |number, state, zone: &str| MemoryBlock {
            number: HotplugBlock(number),
            state,
            zones: BlockZones::In(zone.to_owned()),
            node: None,
        };
        let blocks = MemoryBlocks {
            size: Bytes::from_mib(1),
            blocks: vec![
                block(0, HotplugState::Online, "DMA32"),
                block(1, HotplugState::Online, "Movable"),
                block(2, HotplugState::Offline, "Movable"),
                block(4, HotplugState::GoingOffline, "Movable"),
            ],
        };
        let mut tested = FrameSet::default();
        [3, 255, 256, 511, 600, 1024, 1279, 1280].iter().for_each(|number| tested.insert(Frame::new(*number).unwrap()));
        let extent = |only_programs, online, frames| ZoneExtent {
            only_programs,
            online: Bytes::from_mib(online),
            tested: Bytes::new(frames * FRAME_BYTES),
        };
        assert_eq!(ZoneExtent::of(&blocks, &tested), [extent(true, 2, 4), extent(false, 1, 2)]);
        assert_eq!(blocks.offline(), Bytes::from_mib(1));
    }

    #[test]
    fn a_frame_is_in_the_block_of_its_number() {
        let block = |number, zone: &str| MemoryBlock {
            number: HotplugBlock(number),
            state: HotplugState::Online,
            zones: BlockZones::In(zone.to_owned()),
            node: None,
        };
        let blocks = MemoryBlocks { size: Bytes::from_mib(1), blocks: vec![block(5, "Movable"), block(9, "Normal")] };
        let mut tested = FrameSet::default();
        for number in [5 * 256, 6 * 256 - 1, 6 * 256, 9 * 256 + 7, 0] {
            tested.insert(Frame::new(number).unwrap());
        }
        let counts: Vec<_> = ZoneExtent::of(&blocks, &tested).iter().map(|zone| zone.tested.frames()).collect();
        assert_eq!(counts, [2, 1]);
    }
}
