//! The state of each line: free, live, or failed [Gao13, 4].
//!
//! The marks of live lines alternate between full collections: during one, those of the collection before tell what it
//! found, while new marks are made. Each collection ends with a sweep, which clears what is not live. Which lines have
//! failed is kept apart, for each line of the memory: no collection changes it; only a new page below the line does.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::free_lines::{BLOCK_LINES, FreeLines, LineRange};
use crate::geometry::{BLOCK_PAGES, CAN_FAIL, FailureGrain, HeapBlock, LineSize, MEMORY_LINE, PAGE};
use crate::object::LiveMark;
use crate::wear::FailedLines;

/// Allocated since the last collection, in a block that others may allocate in.
const YOUNG: u8 = 254;

/// The marks of all lines of all blocks.
#[derive(Debug)]
pub(crate) struct LineMarks {
    marks: Vec<AtomicU8>,
    /// The failed lines of the pages of all blocks; all of those that a block does not have.
    failed: Vec<AtomicU64>,
    size: LineSize,
    grain: FailureGrain,
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

/// What is in a block after a collection, in lines of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineCensus {
    /// What objects lie on, with the failed lines among them.
    pub live: u32,
    /// What can be allocated.
    pub free: u32,
    /// Runs of lines that can be allocated.
    pub holes: u32,
    /// The lines of the longest of them.
    pub longest: u32,
}

impl LineMarks {
    pub fn new(blocks: usize, size: LineSize, grain: FailureGrain) -> Self {
        let pages = if CAN_FAIL { blocks * BLOCK_PAGES } else { 0 };
        let failed = (0..pages).map(|_| AtomicU64::new(FailedLines::ALL.bits())).collect();
        let marks = (0..blocks * size.per_block()).map(|_| AtomicU8::new(0)).collect();
        Self { marks, failed, size, grain, live: LiveMark::One }
    }

    pub const fn size(&self) -> LineSize {
        self.size
    }

    /// The bytes of the tables.
    pub const fn metadata_bytes(&self) -> u64 {
        (self.marks.len() + self.failed.len() * size_of::<FailedLines>()) as u64
    }

    fn of(&self, block: HeapBlock) -> &[AtomicU8] {
        let first = block.number() * self.size.per_block();
        &self.marks[first..first + self.size.per_block()]
    }

    fn of_mut(&mut self, block: HeapBlock) -> &mut [AtomicU8] {
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
    pub fn mark(&self, offset: u32, bytes: u32) {
        debug_assert!(!self.any_failed(offset, bytes), "a live object on a failed line at {offset:#x}");
        let (under, live) = (self.under(offset, bytes), self.live as u8);
        self.marks[under].iter().for_each(|mark| mark.store(live, Ordering::Relaxed));
    }

    /// Whether a line of an object has failed.
    pub fn any_failed(&self, offset: u32, bytes: u32) -> bool {
        if !CAN_FAIL {
            return false;
        }
        let mut lines = offset / MEMORY_LINE..=(offset + bytes - 1) / MEMORY_LINE;
        lines.any(|line| self.failed_in((line / u64::BITS) as usize).contains(line % u64::BITS))
    }

    fn failed_in(&self, page: usize) -> FailedLines {
        if !CAN_FAIL {
            return FailedLines::NONE;
        }
        FailedLines::from_bits(self.failed[page].load(Ordering::Relaxed))
    }

    /// Whether old objects may lie in these bytes.
    pub fn may_have_old(&self, offset: u32, bytes: u32) -> bool {
        self.marks[self.under(offset, bytes)].iter().any(|mark| mark.load(Ordering::Relaxed) == self.live as u8)
    }

    /// Whether all lines of an object are marked as live.
    pub fn all_live(&self, offset: u32, bytes: u32) -> bool {
        self.marks[self.under(offset, bytes)].iter().all(|mark| mark.load(Ordering::Relaxed) == self.live as u8)
    }

    /// Lines of a hole were allocated, and the rest of the block is for others. Those to which a collection has moved
    /// objects are live already.
    pub fn allocate(&self, block: HeapBlock, lines: LineRange) {
        let (live, each) = (self.live as u8, self.size.memory_lines() as usize);
        self.of(block)[lines.start / each..lines.end.div_ceil(each)]
            .iter()
            .filter(|mark| mark.load(Ordering::Relaxed) != live)
            .for_each(|mark| mark.store(YOUNG, Ordering::Relaxed));
    }

    /// A line has failed, at an offset in a page of a block; returns whether that is new.
    pub fn fail(&self, offset: u32) -> bool {
        let page = (offset / PAGE) as usize;
        let before = self.failed_in(page);
        let failed = self.grain.widened(before.with(offset % PAGE / MEMORY_LINE), self.size);
        self.failed[page].store(failed.bits(), Ordering::Relaxed);
        failed != before
    }

    /// The page at a place of a block is another one, with these failed lines; what is in it stays.
    pub fn set_page(&self, block: HeapBlock, page: usize, failed: FailedLines) {
        if !CAN_FAIL {
            return;
        }
        let failed = self.grain.widened(failed, self.size).bits();
        self.failed[block.number() * BLOCK_PAGES + page].store(failed, Ordering::Relaxed);
    }

    /// Nothing is in the block any more.
    pub fn clear(&self, block: HeapBlock) {
        self.of(block).iter().for_each(|mark| mark.store(0, Ordering::Relaxed));
    }

    /// Whether something may be live at an offset, as the last collection found it.
    pub fn is_live(&self, offset: u32) -> bool {
        self.marks[(offset >> self.size.shift()) as usize].load(Ordering::Relaxed) == self.live as u8
    }

    /// Whether lines of a block have failed.
    pub fn has_failed(&self, block: HeapBlock) -> bool {
        self.failed_of(block).any(|page| !page.is_perfect())
    }

    fn failed_of(&self, block: HeapBlock) -> impl Iterator<Item = FailedLines> {
        (block.number() * BLOCK_PAGES..(block.number() + 1) * BLOCK_PAGES).map(|page| self.failed_in(page))
    }

    /// The lines of a block that may be allocated.
    pub fn free(&self, block: HeapBlock, unavailable: Unavailable) -> FreeLines {
        let live = self.live as u8;
        let before = match unavailable {
            Unavailable::Live => live,
            Unavailable::LiveOrBefore => self.live.other() as u8,
        };
        self.free_if(block, |mark| mark != live && mark != before && mark != YOUNG)
    }

    #[inline]
    fn free_if(&self, block: HeapBlock, is_free: impl Fn(u8) -> bool) -> FreeLines {
        let each = self.size.memory_lines();
        let line = u64::MAX >> (u64::BITS - each);
        let pages = self.of(block).chunks_exact(self.size.per_page()).zip(self.failed_of(block));
        let mut free = FreeLines::default();
        for (word, (marks, failed)) in free.0.iter_mut().zip(pages) {
            let bits = marks
                .iter()
                .rev()
                .fold(0, |bits: u64, mark| bits << each | if is_free(mark.load(Ordering::Relaxed)) { line } else { 0 });
            *word = bits & !failed.bits();
        }
        free
    }

    /// Ends a collection for a block: what was young and is not marked is free.
    pub fn sweep(&mut self, block: HeapBlock) -> LineCensus {
        let (live, each) = (self.live as u8, self.size.memory_lines());
        let mut lines = 0;
        for mark in self.of_mut(block).iter_mut().map(AtomicU8::get_mut) {
            if *mark == live {
                lines += each;
            } else {
                *mark = 0;
            }
        }
        let free = self.free_if(block, |mark| mark == 0);
        let (mut holes, mut longest) = (0, 0);
        for hole in free.holes() {
            holes += 1;
            longest = longest.max(hole.len());
        }
        debug_assert!(longest <= BLOCK_LINES);
        LineCensus { live: lines, free: free.count(), holes, longest: crate::geometry::narrow(longest) }
    }
}
