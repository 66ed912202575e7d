//! The mark of each line: free, live, or failed [Gao13, 4].
//!
//! The marks of live lines alternate between full collections: during one, those of the collection before tell what it
//! found, while new marks are made. Each collection ends with a sweep, which clears what is not live. Failed lines have
//! a mark of their own. No collection changes it; only a new page below the line does.

use std::ops::{Range, RangeInclusive};

use crate::geometry::{HeapBlock, LineSize};
use crate::object::LiveMark;

/// The line has failed: nothing is allocated there.
const FAILED: u8 = 255;

/// Allocated since the last collection, in a block that others may allocate in.
const YOUNG: u8 = 254;

/// The marks of all lines of all blocks.
#[derive(Debug)]
pub(crate) struct LineMarks {
    marks: Vec<u8>,
    size: LineSize,
    live: LiveMark,
}

/// Which lines an allocator may not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// Lines that are live since the last collection.
    Live,
    /// During a full collection: those, and what the collection before marked, since it may not have been reached yet.
    LiveOrBefore,
}

/// Lines of a block, by their places from its start.
pub(crate) type LineRange = Range<usize>;

/// What is in the lines of a block after a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCensus {
    pub live: u32,
    pub failed: u32,
    /// Runs of lines that can be allocated.
    pub holes: u32,
}

impl LineMarks {
    pub fn new(blocks: usize, size: LineSize) -> Self {
        Self { marks: vec![0; blocks * size.per_block()], size, live: LiveMark::One }
    }

    pub const fn size(&self) -> LineSize {
        self.size
    }

    /// The bytes of the table.
    pub const fn metadata_bytes(&self) -> u64 {
        self.marks.len() as u64
    }

    fn of(&self, block: HeapBlock) -> &[u8] {
        let first = block.number() * self.size.per_block();
        &self.marks[first..first + self.size.per_block()]
    }

    fn of_mut(&mut self, block: HeapBlock) -> &mut [u8] {
        let first = block.number() * self.size.per_block();
        &mut self.marks[first..first + self.size.per_block()]
    }

    /// The mark of live lines, and of live objects.
    pub const fn live(&self) -> LiveMark {
        self.live
    }

    /// A full collection begins.
    pub fn begin_full_collection(&mut self) {
        self.live = self.live.other();
    }

    /// The marks of the lines that so many bytes from an offset lie on.
    #[inline]
    const fn under(&self, offset: u32, bytes: u32) -> RangeInclusive<usize> {
        let shift = self.size.shift();
        (offset >> shift) as usize..=((offset + bytes - 1) >> shift) as usize
    }

    /// Marks the lines of an object as live.
    #[inline]
    pub fn mark(&mut self, offset: u32, bytes: u32) {
        let (under, live) = (self.under(offset, bytes), self.live as u8);
        for mark in &mut self.marks[under] {
            debug_assert_ne!(*mark, FAILED, "a live object on a failed line at {offset:#x}");
            *mark = live;
        }
    }

    /// Whether a line of an object has failed.
    pub fn any_failed(&self, offset: u32, bytes: u32) -> bool {
        self.marks[self.under(offset, bytes)].contains(&FAILED)
    }

    /// Whether old objects may lie in these bytes: on live lines, or on lines that have failed since.
    pub fn may_have_old(&self, offset: u32, bytes: u32) -> bool {
        let live = self.live as u8;
        self.marks[self.under(offset, bytes)].iter().any(|mark| *mark == live || *mark == FAILED)
    }

    /// Whether all lines of an object are marked as live.
    pub fn all_live(&self, offset: u32, bytes: u32) -> bool {
        self.marks[self.under(offset, bytes)].iter().all(|mark| *mark == self.live as u8)
    }

    /// Lines of a hole were allocated, and the rest of the block is for others. Those to which a collection has moved
    /// objects are live already.
    pub fn allocate(&mut self, block: HeapBlock, lines: LineRange) {
        let live = self.live as u8;
        self.of_mut(block)[lines]
            .iter_mut()
            .filter(|mark| **mark != live && **mark != FAILED)
            .for_each(|mark| *mark = YOUNG);
    }

    /// A line has failed; returns whether that is new.
    pub fn fail(&mut self, block: HeapBlock, line: usize) -> bool {
        std::mem::replace(&mut self.of_mut(block)[line], FAILED) != FAILED
    }

    /// Lines get a page in which nothing has failed. What was failed counts as live until the next full collection: old
    /// objects may be there.
    pub fn heal(&mut self, block: HeapBlock, lines: LineRange) {
        let live = self.live as u8;
        self.of_mut(block)[lines].iter_mut().filter(|mark| **mark == FAILED).for_each(|mark| *mark = live);
    }

    /// Lines that had no page get one.
    pub fn open(&mut self, block: HeapBlock, lines: LineRange) {
        self.of_mut(block)[lines].fill(0);
    }

    /// Whether something may be live in a line, as the last collection found it.
    pub fn is_live(&self, block: HeapBlock, line: usize) -> bool {
        self.of(block)[line] == self.live as u8
    }

    /// The block gets other pages, whose failed lines are these.
    pub fn reset(&mut self, block: HeapBlock, failed: impl IntoIterator<Item = usize>) {
        self.of_mut(block).fill(0);
        for line in failed {
            self.of_mut(block)[line] = FAILED;
        }
    }

    /// The next run of lines from a place on that may be allocated.
    #[inline]
    pub fn next_hole(&self, block: HeapBlock, from: usize, unavailable: Unavailable) -> Option<LineRange> {
        let live = self.live as u8;
        let before = match unavailable {
            Unavailable::Live => live,
            Unavailable::LiveOrBefore => self.live.other() as u8,
        };
        let is_free = |mark: u8| mark != live && mark != before && mark < YOUNG;
        let marks = self.of(block);
        let start = from + marks[from..].iter().position(|mark| is_free(*mark))?;
        let length = marks[start..].iter().position(|mark| !is_free(*mark)).unwrap_or(marks.len() - start);
        Some(start..start + length)
    }

    /// Ends a collection for a block: what was young and is not marked is free.
    pub fn sweep(&mut self, block: HeapBlock) -> LineCensus {
        let live = self.live as u8;
        let mut census = LineCensus::default();
        let mut was_free = false;
        for mark in self.of_mut(block) {
            let is_free = *mark != live && *mark != FAILED;
            match *mark {
                FAILED => census.failed += 1,
                mark if mark == live => census.live += 1,
                _ => *mark = 0,
            }
            census.holes += u32::from(is_free && !was_free);
            was_free = is_free;
        }
        census
    }
}
