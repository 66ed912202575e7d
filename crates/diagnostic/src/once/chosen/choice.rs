//! Which frames of the machine are to be tested.
//!
//! **Problem.** A user names physical ranges, nodes, a DIMM, or all memory; there are holes in it, and a part is
//! offline. **Idea.** What is named is cut to the memory blocks that are online. What can be claimed is decided by
//! blocks of 2 MiB, as the kernel does: one page in it that cannot be moved keeps the kernel from taking any frame of
//! it. **Why this way.** Both are functions of what the kernel shows, so their tests need no memory.

use std::collections::BTreeSet;

use rampart_linux::{FrameClass, HotplugState, MemoryBlocks};
use rampart_memory::{Bytes, Frame, FrameRange, Node};

use super::dimm::DimmChoice;
use crate::machine::reach::is_movable;

/// Which frames are to be tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameChoice {
    /// These; if empty, all.
    pub ranges: Vec<FrameRange>,
    /// On these nodes; if empty, on all.
    pub nodes: Vec<Node>,
    /// On this DIMM; if none, on all.
    pub dimm: Option<DimmChoice>,
    /// Whether also frames in use are tested, whose content is moved elsewhere first.
    pub used: bool,
}

impl FrameChoice {
    /// The chosen frames that are online, in ascending ranges that do not touch.
    #[must_use]
    pub fn online(&self, blocks: &MemoryBlocks) -> Vec<FrameRange> {
        let size = blocks.frames().get();
        let is_chosen =
            |node: Option<Node>| self.nodes.is_empty() || node.is_some_and(|node| self.nodes.contains(&node));
        let online = blocks.blocks.iter().filter(|block| block.state == HotplugState::Online && is_chosen(block.node));
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for block in online {
            let (first, end) = (u64::from(block.number.0) * size, (u64::from(block.number.0) + 1) * size);
            for (from, to) in self.parts(first, end) {
                match spans.last_mut() {
                    Some((_, last)) if *last == from => *last = to,
                    _ => spans.push((from, to)),
                }
            }
        }
        spans.into_iter().filter_map(|(from, to)| FrameRange::new(Frame::new(from)?, to - from)).collect()
    }

    /// Whether every frame was asked for by its number, whatever it is used for.
    #[must_use]
    pub const fn names_all(&self) -> bool {
        self.used && !self.ranges.is_empty()
    }

    /// The nodes with memory that is named.
    pub fn nodes_of(&self, blocks: &MemoryBlocks) -> Vec<Node> {
        let nodes: BTreeSet<Node> = blocks.blocks.iter().map(|block| block.node.unwrap_or(Node(0))).collect();
        nodes.into_iter().filter(|node| self.nodes.is_empty() || self.nodes.contains(node)).collect()
    }

    /// The parts of `first..end` that are named and on the DIMM, ascending.
    fn parts(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let named = parts_of(&self.ranges, first, end);
        let Some(dimm) = &self.dimm else { return named };
        named.into_iter().flat_map(|(from, to)| parts_of(&dimm.ranges, from, to)).collect()
    }
}

/// The parts of `first..end` that are in these ranges, ascending; all of it, if there are none.
fn parts_of(ranges: &[FrameRange], first: u64, end: u64) -> Vec<(u64, u64)> {
    if ranges.is_empty() {
        return vec![(first, end)];
    }
    let cut = |range: &FrameRange| (range.start().number().max(first), (range.last().number() + 1).min(end));
    let mut parts: Vec<_> = ranges.iter().map(cut).filter(|(from, to)| !(from..to).is_empty()).collect();
    parts.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (from, to) in parts {
        match apart.last_mut() {
            Some((_, last)) if from <= *last => *last = to.max(*last),
            _ => apart.push((from, to)),
        }
    }
    apart
}

/// How many of the chosen frames should be tested, by the present use of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameReach {
    /// Memory that the kernel manages.
    pub memory: u64,
    /// Frames that are free, or may be moved, in blocks without memory that cannot be moved.
    pub claimable: u64,
}

impl FrameReach {
    /// Adds a block, or a part of one, by the classes of its frames.
    pub fn add(&mut self, classes: &[FrameClass], used: bool) {
        let count = |is: fn(FrameClass) -> bool| classes.iter().filter(|&&class| is(class)).count() as u64;
        self.memory += count(|class| !matches!(class, FrameClass::Absent | FrameClass::Reserved));
        if classes.iter().all(|&class| is_movable(class)) {
            self.claimable += if used { classes.len() as u64 } else { count(|class| class == FrameClass::Free) };
        }
    }

    /// The frames to be tested: where the user named ranges and asked for frames in use too, all that are memory.
    #[must_use]
    pub fn request(self, choice: &FrameChoice) -> Bytes {
        let frames = if choice.names_all() { self.memory } else { self.claimable };
        Bytes::new(frames * rampart_memory::FRAME_BYTES)
    }
}

/// The free frames in a row of a range, by the classes of its frames.
#[must_use]
pub fn free_runs(frames: FrameRange, classes: &[FrameClass]) -> Vec<FrameRange> {
    let numbers = (frames.start().number()..).zip(classes).filter(|(_, class)| **class == FrameClass::Free);
    FrameRange::merge(numbers.filter_map(|(number, _)| Frame::new(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_linux::{BlockZones, MemoryBlock};
    use rampart_memory::HotplugBlock;

    fn range(first: u64, count: u64) -> FrameRange {
        FrameRange::new(Frame::new(first).unwrap(), count).unwrap()
    }

    /// Blocks of 1 MiB (256 frames): 0 and 1 on node 0, 2 offline, 3 on node 1, 5 on node 0.
    fn blocks() -> MemoryBlocks {
        let block = |number, state, node| MemoryBlock {
            number: HotplugBlock(number),
            state,
            zones: BlockZones::In("Normal".to_owned()),
            node: Some(Node(node)),
        };
        let (on, off) = (HotplugState::Online, HotplugState::Offline);
        let blocks = vec![block(0, on, 0), block(1, on, 0), block(2, off, 0), block(3, on, 1), block(5, on, 0)];
        MemoryBlocks { size: Bytes::from_mib(1), blocks }
    }

    #[test]
    fn what_is_named_is_cut_to_what_is_online() {
        let online = |ranges: &[FrameRange], nodes: &[u32]| {
            let nodes = nodes.iter().copied().map(Node).collect();
            FrameChoice { ranges: ranges.to_vec(), nodes, ..FrameChoice::default() }.online(&blocks())
        };
        assert_eq!(online(&[], &[]), [range(0, 512), range(768, 256), range(1280, 256)]);
        assert_eq!(online(&[], &[1]), [range(768, 256)]);
        assert_eq!(online(&[range(100, 800)], &[]), [range(100, 412), range(768, 132)]);
        assert_eq!(online(&[range(100, 800)], &[1]), [range(768, 132)]);
        assert_eq!(
            online(&[range(300, 10), range(10, 5), range(305, 20), range(308, 2)], &[]),
            [range(10, 5), range(300, 25)]
        );
        assert_eq!(online(&[range(512, 256), range(1024, 256)], &[]), [], "offline, and no memory");
    }

    #[test]
    fn of_a_dimm_what_is_named_and_online_is_tested_and_no_more() {
        let online = |dimm: &[(String, FrameRange)], ranges: &[FrameRange], nodes: Vec<Node>| {
            let dimm = DimmChoice::of_list("A1", dimm).unwrap();
            FrameChoice { ranges: ranges.to_vec(), nodes, dimm: Some(dimm), used: true }.online(&blocks())
        };
        let a1 = [("A1".to_owned(), range(500, 400)), ("A1".to_owned(), range(100, 8))];
        assert_eq!(online(&a1, &[], Vec::new()), [range(100, 8), range(500, 12), range(768, 132)]);
        assert_eq!(online(&a1, &[], vec![Node(1)]), [range(768, 132)]);
        assert_eq!(online(&a1, &[range(0, 104), range(800, 2)], Vec::new()), [range(100, 4), range(800, 2)]);
        let elsewhere = [("A1".to_owned(), range(512, 256))];
        assert_eq!(online(&elsewhere, &[], Vec::new()), [], "offline");
        let choice = FrameChoice { dimm: DimmChoice::of_list("A1", &a1).ok(), used: true, ..Default::default() };
        assert!(!choice.names_all(), "a DIMM has memory that cannot be moved, as a node has");
    }

    #[test]
    fn one_page_that_cannot_be_moved_keeps_its_block_out_of_reach() {
        use FrameClass::{Absent, Anonymous, File, Free, Kernel, Reserved};
        let reach = |blocks: &[&[FrameClass]], used| {
            let mut reach = FrameReach::default();
            blocks.iter().for_each(|classes| reach.add(classes, used));
            reach
        };
        let blocks: [&[FrameClass]; 3] = [&[Free, Anonymous, File], &[Free, Kernel, Free], &[Reserved, Absent, Free]];
        assert_eq!(reach(&blocks, false), FrameReach { memory: 7, claimable: 1 });
        assert_eq!(reach(&blocks, true), FrameReach { memory: 7, claimable: 3 });
        let named = FrameChoice { ranges: vec![range(0, 9)], used: true, ..FrameChoice::default() };
        assert_eq!(reach(&blocks, true).request(&named), Bytes::new(7 * 4096), "named ranges are wanted whole");
        assert_eq!(
            reach(&blocks, true).request(&FrameChoice { used: true, ..Default::default() }),
            Bytes::new(3 * 4096)
        );
    }

    #[test]
    fn free_frames_in_a_row_are_one_run() {
        use FrameClass::{Anonymous, Free};
        let classes = [Free, Free, Anonymous, Free, Anonymous];
        assert_eq!(free_runs(range(7, 5), &classes), [range(7, 2), range(10, 1)]);
    }

    #[test]
    fn parts_of_one_block_that_do_not_touch_stay_apart() {
        let ranges = vec![range(40, 5), range(10, 5), range(15, 5), range(0, 10)];
        let choice = FrameChoice { ranges, ..FrameChoice::default() };
        assert_eq!(choice.online(&blocks()), [range(0, 20), range(40, 5)]);
    }

    #[test]
    fn the_free_lists_of_the_nodes_that_are_named_are_tested() {
        let nodes = |nodes: &[u32]| {
            let nodes = nodes.iter().copied().map(Node).collect();
            FrameChoice { nodes, ..FrameChoice::default() }.nodes_of(&blocks())
        };
        assert_eq!((nodes(&[]), nodes(&[1, 7])), (vec![Node(0), Node(1)], vec![Node(1)]));
    }
}
