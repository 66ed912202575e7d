//! Which pin keeps pages where they are.
//!
//! **Problem.** The kernel keeps `ZONE_MOVABLE`, the user pool of `rampart banks pools`, free of pins without an end
//! (`FOLL_LONGTERM`), such as those of an `io_uring`: it first moves the pages to the kernel's own memory. A test would
//! fill that, and never reach the user pool. **Idea.** Pages there are only locked in RAM. The kernel may move them,
//! but rarely does; frame numbers are read before and after a test, and at each mismatch, and a page that moved does
//! not count as tested. **Why this way.** A pin of another kind, such as a pipe's, would keep the block from going
//! offline.

use rampart_linux::{MemoryBlock, MemoryBlocks};
use rampart_memory::Frame;

/// Whether pages in these frames stay where they are if they get a pin without an end, on a machine with memory that
/// only programs get. An unknown frame may be there.
#[must_use]
pub fn can_stay(frames: &[Option<Frame>], blocks: Option<&MemoryBlocks>) -> bool {
    let Some(blocks) = blocks else { return false };
    let is_movable =
        |frame: &Option<Frame>| frame.is_none_or(|frame| blocks.of(frame).is_some_and(MemoryBlock::is_movable_only));
    !frames.iter().any(is_movable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_linux::{BlockZones, HotplugState};
    use rampart_memory::{Bytes, HotplugBlock};

    #[test]
    fn a_page_of_the_user_pool_would_not_stay() {
        let block = |number, zone: &str| MemoryBlock {
            number: HotplugBlock(number),
            state: HotplugState::Online,
            zones: BlockZones::In(zone.to_owned()),
            node: None,
        };
        let blocks = MemoryBlocks { size: Bytes::from_mib(128), blocks: vec![block(1, "Normal"), block(2, "Movable")] };
        let frames = |numbers: &[u64]| numbers.iter().map(|number| Frame::new(*number)).collect::<Vec<_>>();
        let stays = |frames: &[Option<Frame>]| can_stay(frames, Some(&blocks));
        assert!(stays(&frames(&[32_768, 65_535])), "memory of the kernel's zones");
        assert!(!stays(&frames(&[32_768, 65_535, 65_536])), "one page of the user pool is enough");
        assert!(!stays(&[None]), "nobody knows where it is");
        assert!(!can_stay(&frames(&[32_768]), None), "nobody knows where such memory is");
    }
}
