//! The state of each line: free, live, or failed [Gao13, 4].
//!
//! The marks of live lines alternate between full collections: during one, those of the collection before tell what it
//! found, while new marks are made. Each collection ends with a sweep, which clears what is not live. Which lines have
//! failed is kept apart, for each line of the memory: no collection changes it; only a new page below the line does.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

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
    failed: Vec<FailedLinesOfBlock>,
    /// Whether a block was ever given pages with failed lines, or fewer pages than it has room for. If not, no block
    /// that has pages is searched for failed lines.
    has_failed: AtomicBool,
    size: LineSize,
    grain: FailureGrain,
    live: LiveMark,
}

/// The failed lines of a block's pages, and whether there are any: in most blocks there are none.
#[derive(Debug)]
struct FailedLinesOfBlock {
    any: AtomicBool,
    pages: [AtomicU64; BLOCK_PAGES],
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
        let failed = (0..if CAN_FAIL { blocks } else { 0 }).map(|_| FailedLinesOfBlock::default()).collect();
        let marks = (0..blocks * size.per_block()).map(|_| AtomicU8::new(0)).collect();
        Self { marks, failed, has_failed: AtomicBool::new(false), size, grain, live: LiveMark::One }
    }

    pub const fn size(&self) -> LineSize {
        self.size
    }

    /// The bytes of the tables.
    pub const fn metadata_bytes(&self) -> u64 {
        (self.marks.len() + self.failed.len() * size_of::<FailedLinesOfBlock>()) as u64
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
        FailedLines::from_bits(self.failed[page / BLOCK_PAGES].pages[page % BLOCK_PAGES].load(Ordering::Relaxed))
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
    /// objects are live already. Returns what is not free any more.
    pub fn allocate(&self, block: HeapBlock, lines: LineRange) -> LineRange {
        let (live, each) = (self.live as u8, self.size.memory_lines() as usize);
        let whole = lines.start / each..lines.end.div_ceil(each);
        self.of(block)[whole.clone()]
            .iter()
            .filter(|mark| mark.load(Ordering::Relaxed) != live)
            .for_each(|mark| mark.store(YOUNG, Ordering::Relaxed));
        whole.start * each..whole.end * each
    }

    /// The lines of a page that become unusable if these fail: whole lines of the heap, if the grain is such a line.
    pub fn widened(&self, failed: FailedLines) -> FailedLines {
        self.grain.widened(failed, self.size)
    }

    /// Whether holes may be shorter than a line of the heap where lines have failed.
    pub fn has_short_holes(&self) -> bool {
        CAN_FAIL && self.grain == FailureGrain::MemoryLine
    }

    /// A line has failed, at an offset in a page of a block; returns whether that is new.
    pub fn fail(&self, offset: u32) -> bool {
        let page = (offset / PAGE) as usize;
        let before = self.failed_in(page);
        let failed = self.widened(before.with(offset % PAGE / MEMORY_LINE));
        self.set(page, failed);
        failed != before
    }

    /// The page at a place of a block is another one, with these failed lines; what is in it stays.
    pub fn set_page(&self, block: HeapBlock, page: usize, failed: FailedLines) {
        if CAN_FAIL {
            self.set(block.number() * BLOCK_PAGES + page, self.widened(failed));
        }
    }

    fn set(&self, page: usize, failed: FailedLines) {
        self.note(self.failed[page / BLOCK_PAGES].set(page % BLOCK_PAGES, failed));
    }

    /// Written only when it changes: markers read what lies beside it, in the same cache line.
    fn note(&self, any_failed: bool) {
        if any_failed && !self.has_failed.load(Ordering::Relaxed) {
            self.has_failed.store(true, Ordering::Relaxed);
        }
    }

    /// All pages of a block are others now, which are perfect.
    pub fn set_perfect_pages(&self, block: HeapBlock) {
        if CAN_FAIL && self.failed[block.number()].any.load(Ordering::Relaxed) {
            self.failed[block.number()].set_all([FailedLines::NONE; BLOCK_PAGES]);
        }
    }

    /// All pages of a block are others.
    pub fn set_pages(&self, block: HeapBlock, failed: [FailedLines; BLOCK_PAGES]) {
        if CAN_FAIL {
            let widened = failed.map(|failed| self.widened(failed));
            self.note(self.failed[block.number()].set_all(widened));
        }
    }

    /// Nothing is in the block any more.
    pub fn clear(&self, block: HeapBlock) {
        self.of(block).iter().for_each(|mark| mark.store(0, Ordering::Relaxed));
    }

    /// Whether something may be live at an offset, as the last collection found it.
    pub fn is_live(&self, offset: u32) -> bool {
        self.marks[(offset >> self.size.shift()) as usize].load(Ordering::Relaxed) == self.live as u8
    }

    /// Finds the lines of a block that may be allocated, and returns whether any has failed. During a full collection,
    /// what the collection before found live has its mark of then, and is not free: it may not have been reached yet.
    #[inline]
    pub fn find_free(&self, block: HeapBlock, free: &mut FreeLines) -> bool {
        self.find_unmarked(block, free);
        self.remove_failed(block, free)
    }

    #[inline(never)]
    fn find_unmarked(&self, block: HeapBlock, free: &mut FreeLines) {
        for (word, marks) in free.0.iter_mut().zip(self.of(block).chunks_exact(self.size.per_page())) {
            let bit = |mark: &AtomicU8| u64::from(mark.load(Ordering::Relaxed) == 0);
            *word = repeated(marks.iter().rev().fold(0, |bits: u64, mark| bits << 1 | bit(mark)), self.size);
        }
    }

    /// Removes the failed lines of a block, and returns whether there are any.
    #[inline]
    fn remove_failed(&self, block: HeapBlock, free: &mut FreeLines) -> bool {
        let has_failed = CAN_FAIL && self.has_failed.load(Ordering::Relaxed);
        has_failed && self.failed[block.number()].remove_from(free)
    }

    /// Ends a collection for a block: what was young and is not marked is free.
    pub fn sweep(&mut self, block: HeapBlock) -> LineCensus {
        let (live, size) = (self.live, self.size);
        let (mut lines, mut free) = (0, FreeLines::default());
        for (word, marks) in free.0.iter_mut().zip(self.of_mut(block).chunks_exact_mut(size.per_page())) {
            let bits = repeated(sweep_page(marks, live), size);
            lines += bits.count_ones();
            *word = !bits;
        }
        self.remove_failed(block, &mut free);
        let (mut holes, mut longest) = (0, 0);
        for hole in free.holes() {
            holes += 1;
            longest = longest.max(hole.len());
        }
        debug_assert!(longest <= BLOCK_LINES);
        LineCensus { live: lines, free: free.count(), holes, longest: crate::geometry::narrow(longest) }
    }
}

/// Clears the marks of a page that are not live, and returns a bit for each line of the heap, set if it is live. Eight
/// marks are swept at once, as the bytes of a number.
#[inline]
fn sweep_page(marks: &mut [AtomicU8], live: LiveMark) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const SEVEN_BITS: u64 = ONES * 0x7f;
    let mut bits = 0;
    for (group, marks) in marks.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bytes = marks.each_mut().map(|mark| *mark.get_mut());
        let differ = u64::from_le_bytes(bytes) ^ (ONES * live as u64);
        // A byte that is not 0 gets its highest bit: by a carry from the lower ones, or because it has it.
        let are_live = (!(((differ & SEVEN_BITS) + SEVEN_BITS) | differ) >> 7) & ONES;
        let swept = (are_live * live as u64).to_le_bytes();
        marks.iter_mut().zip(swept).for_each(|(mark, swept)| *mark.get_mut() = swept);
        // The multiplication gathers one bit of each byte in the highest byte, in their order.
        bits |= (are_live.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * group);
    }
    bits
}

impl Default for FailedLinesOfBlock {
    /// Those of a block without pages.
    fn default() -> Self {
        let pages = [const { AtomicU64::new(FailedLines::ALL.bits()) }; BLOCK_PAGES];
        Self { any: AtomicBool::new(true), pages }
    }
}

impl FailedLinesOfBlock {
    /// Returns whether any line of the block has failed.
    fn set(&self, page: usize, failed: FailedLines) -> bool {
        self.pages[page].store(failed.bits(), Ordering::Relaxed);
        self.note(self.pages.iter().any(|page| page.load(Ordering::Relaxed) != 0))
    }

    /// Returns whether any line of the block has failed.
    fn set_all(&self, failed: [FailedLines; BLOCK_PAGES]) -> bool {
        self.pages.iter().zip(failed).for_each(|(page, failed)| page.store(failed.bits(), Ordering::Relaxed));
        self.note(failed.iter().any(|failed| !failed.is_perfect()))
    }

    fn note(&self, any: bool) -> bool {
        self.any.store(any, Ordering::Relaxed);
        any
    }

    #[inline(never)]
    fn remove_from(&self, free: &mut FreeLines) -> bool {
        let any = self.any.load(Ordering::Relaxed);
        if any {
            let pages = free.0.iter_mut().zip(&self.pages);
            pages.for_each(|(free, failed)| *free &= !failed.load(Ordering::Relaxed));
        }
        any
    }
}

/// The bits of a page's lines, each as often as such a line has lines of the memory.
#[inline]
fn repeated(bits: u64, size: LineSize) -> u64 {
    match size {
        LineSize::L64 => bits,
        LineSize::L128 => doubled(bits),
        LineSize::L256 => doubled(doubled(bits)),
    }
}

/// Each of the lower 32 bits twice.
#[inline]
const fn doubled(bits: u64) -> u64 {
    let mut apart = bits & 0xffff_ffff;
    apart = (apart | apart << 16) & 0x0000_ffff_0000_ffff;
    apart = (apart | apart << 8) & 0x00ff_00ff_00ff_00ff;
    apart = (apart | apart << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    apart = (apart | apart << 2) & 0x3333_3333_3333_3333;
    apart = (apart | apart << 1) & 0x5555_5555_5555_5555;
    apart * 3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::geometry::narrow;

    /// Marks of a block's lines, the failed lines of its pages, and the size of its lines.
    type BlockContent = (Vec<u8>, [u64; BLOCK_PAGES], LineSize);

    fn content() -> impl Strategy<Value = BlockContent> {
        (
            prop::collection::vec(prop_oneof![Just(0), Just(1), Just(2), Just(YOUNG)], BLOCK_LINES),
            prop::array::uniform8(prop_oneof![Just(0), any::<u64>()]),
            prop::sample::select(&LineSize::ALL[..]),
        )
    }

    fn free(lines: &LineMarks, block: HeapBlock) -> FreeLines {
        let mut free = FreeLines::default();
        lines.find_free(block, &mut free);
        free
    }

    /// The second of two blocks, with this in it.
    fn block_of((marks, failed, size): &BlockContent) -> (LineMarks, HeapBlock) {
        let (lines, block) = (LineMarks::new(2, *size, FailureGrain::MemoryLine), HeapBlock::new(1));
        lines.of(block).iter().zip(marks).for_each(|(line, mark)| line.store(*mark, Ordering::Relaxed));
        lines.set_pages(block, failed.map(FailedLines::from_bits));
        (lines, block)
    }

    fn has(lines: [u64; BLOCK_PAGES], line: usize) -> bool {
        lines[line / 64] >> (line % 64) & 1 == 1
    }

    proptest! {
        #[test]
        fn a_line_that_fails_where_none_had_is_free_no_more(line in 0..narrow(BLOCK_LINES), is_told_by_page: bool) {
            let (lines, block) = (LineMarks::new(2, LineSize::L64, FailureGrain::MemoryLine), HeapBlock::new(1));
            lines.set_perfect_pages(block);
            prop_assert_eq!(free(&lines, block).count(), narrow(BLOCK_LINES));
            let (page, of_page) = (line as usize / 64, line % 64);
            if is_told_by_page {
                lines.set_page(block, page, FailedLines::NONE.with(of_page));
            } else {
                prop_assert!(lines.fail(block.start() + line * MEMORY_LINE));
            }
            prop_assert_eq!(free(&lines, block).count(), narrow(BLOCK_LINES) - 1);
            prop_assert!(!has(free(&lines, block).0, line as usize));
        }

        #[test]
        fn a_line_is_free_if_it_is_not_marked_and_has_not_failed(content in content()) {
            let (lines, block) = block_of(&content);
            let (marks, failed, size) = content;
            let mut free = FreeLines::default();
            let has_failed = lines.find_free(block, &mut free);
            prop_assert_eq!(has_failed, failed != [0; BLOCK_PAGES]);
            for line in 0..BLOCK_LINES {
                let is_free = marks[line / size.memory_lines() as usize] == 0 && !has(failed, line);
                prop_assert_eq!(has(free.0, line), is_free, "line {}", line);
            }
        }

        #[test]
        fn what_is_allocated_is_free_no_more_with_the_rest_of_the_heaps_lines(
            content in content(),
            from in 0..BLOCK_LINES,
            count in 0_usize..100,
        ) {
            let (lines, block) = block_of(&content);
            let end = (from + count).min(BLOCK_LINES);
            let before = free(&lines, block);
            let taken = lines.allocate(block, from..end);
            prop_assert!(taken.start <= from && end <= taken.end);
            prop_assert!(taken.len() < count + 2 * content.2.memory_lines() as usize);
            let after = free(&lines, block);
            for line in 0..BLOCK_LINES {
                prop_assert_eq!(has(after.0, line), has(before.0, line) && !taken.contains(&line), "line {}", line);
            }
        }

        #[test]
        fn a_sweep_keeps_what_is_live_and_counts_the_holes(content in content()) {
            let (mut lines, block) = block_of(&content);
            let (marks, failed, size) = content;
            let (live, each) = (lines.live() as u8, size.memory_lines() as usize);
            let census = lines.sweep(block);
            let is_live = |line: usize| marks[line / each] == live;
            let is_free = |line: &usize| !is_live(*line) && !has(failed, *line);
            prop_assert_eq!(census.live as usize, (0..BLOCK_LINES).filter(|line| is_live(*line)).count());
            prop_assert_eq!(census.free as usize, (0..BLOCK_LINES).filter(is_free).count());
            let runs: Vec<bool> = (0..BLOCK_LINES).map(|line| is_free(&line)).collect();
            let holes: Vec<usize> = runs.chunk_by(|one, next| one == next).filter(|run| run[0]).map(<[_]>::len).collect();
            prop_assert_eq!(census.holes as usize, holes.len());
            prop_assert_eq!(census.longest as usize, holes.into_iter().max().unwrap_or(0));
            prop_assert_eq!(free(&lines, block).count(), census.free, "no mark is left but those of live lines");
        }
    }
}
