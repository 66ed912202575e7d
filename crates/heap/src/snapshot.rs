//! What each line of a heap is used for, for drawings.

use std::collections::BTreeSet;

use crate::geometry::{BLOCK_PAGES, HeapBlock, PAGE};
use crate::heap::ManagedHeap;
use crate::memory::PageFrame;
use crate::object::ObjectModel;
use crate::space::blocks::HeapBlockState;
use crate::wear::FailedLines;

/// What a line of the memory is, as the last collection found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// No page is there.
    NoPage,
    /// It has failed.
    Failed,
    /// Objects lie on it, or on the same line of the heap.
    Marked,
    /// Nothing lay there.
    Free,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockSnapshot {
    /// Which one.
    pub block: HeapBlock,
    /// What it is used for.
    pub state: HeapBlockState,
    /// Its lines of 64 B, from its start.
    pub lines: Vec<LineState>,
}

impl<M: ObjectModel> ManagedHeap<M> {
    /// All blocks that have pages.
    pub fn snapshot(&self) -> Vec<BlockSnapshot> {
        let space = self.space();
        let of_block = |block: HeapBlock| {
            let record = space.blocks.get(block);
            let pages = record.pages?;
            let mut lines = Vec::with_capacity(BLOCK_PAGES * u64::BITS as usize);
            for (number, page) in pages.into_iter().enumerate() {
                let failed = page.map_or(FailedLines::ALL, |page| space.pools.failed(page));
                lines.extend((0..u64::BITS).map(|line| {
                    let at = block.line_at(number * u64::BITS as usize + line as usize);
                    match page {
                        None => LineState::NoPage,
                        Some(_) if failed.contains(line) => LineState::Failed,
                        Some(_) if space.lines.is_live(at) => LineState::Marked,
                        Some(_) => LineState::Free,
                    }
                }));
            }
            Some(BlockSnapshot { block, state: record.state, lines })
        };
        space.blocks.indices().filter_map(of_block).collect()
    }

    /// The frame of each page, as far as they are known, and whether the last collection found nothing there.
    pub fn frames(&self) -> Vec<(PageFrame, bool)> {
        let mut free = BTreeSet::new();
        for BlockSnapshot { block, lines, .. } in self.snapshot() {
            let pages = (block.start()..).step_by(PAGE as usize).zip(lines.chunks(u64::BITS as usize));
            free.extend(pages.filter(|(_, lines)| lines.iter().all(|line| *line == LineState::Free)).map(|(at, _)| at));
        }
        let frames = self.space().memory.frames().into_iter();
        frames.map(|frame| (frame, frame.at.is_none_or(|at| free.contains(&at)))).collect()
    }

    /// How many pages large objects have.
    pub fn large_pages(&self) -> usize {
        self.space().large.pages()
    }
}
