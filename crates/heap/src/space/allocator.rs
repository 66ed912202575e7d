//! Allocation by bumping a pointer through holes [Gao13, 4.1] and 4.2.
//!
//! Small objects fill hole after hole. An object larger than a line that does not fit the current hole uses overflow
//! allocation: the next large enough hole of the overflow block, else a new block, else perfect pages. After that,
//! objects of this size or larger that do not fit the current hole go straight to perfect pages until the next
//! collection. What an overflow block has left goes back to those that have holes.

use super::immix_space::{ImmixSpace, Source};
use super::ranges::{BumpRange, PerfectPages};
use crate::geometry::HeapBlock;

/// A hole of a block, and what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    block: HeapBlock,
    first_line: usize,
    next_line: usize,
}

/// The allocator of one thread.
#[derive(Debug, Default)]
pub struct LocalAllocator {
    /// The present hole.
    pub bump: BumpRange,
    hole: Option<Hole>,
    overflow: BumpRange,
    overflow_hole: Option<Hole>,
    /// The least size for which no hole was found in a whole block since the last collection; 0 if there is none.
    no_hole_from: u32,
    /// Perfect pages for objects that fit no hole.
    perfect: BumpRange,
    perfect_pages: Option<PerfectPages>,
}

impl LocalAllocator {
    /// Allocates, in what it has or will have from the space; `None` if there is no room.
    #[inline]
    pub(crate) fn allocate(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        match self.bump.take(bytes) {
            None => self.allocate_elsewhere(space, bytes, source),
            at => at,
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_elsewhere(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        if bytes > space.lines.size().bytes() {
            return self.allocate_overflow(space, bytes, source);
        }
        loop {
            let (block, from) = match self.hole {
                Some(hole) => (hole.block, hole.next_line),
                None => (space.next_block(source)?, 0),
            };
            self.hole = space.hole(block, from, source);
            if let Some(hole) = self.hole {
                self.bump = space.range_of(hole);
                return self.bump.take(bytes);
            }
        }
    }

    fn allocate_overflow(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        if self.no_hole_from > 0 && bytes >= self.no_hole_from {
            return self.allocate_perfect(space, bytes, source);
        }
        if let Some(at) = self.overflow.take(bytes) {
            return Some(at);
        }
        if let Some(hole) = self.overflow_hole {
            space.leave_overflow(hole, self.overflow.cursor);
            if let Some(at) = self.overflow_in(space, hole.block, hole.next_line, bytes, source) {
                return Some(at);
            }
            space.share(hole.block);
        }
        (self.overflow, self.overflow_hole) = (BumpRange::default(), None);
        let block = space.new_block(source)?;
        if let Some(at) = self.overflow_in(space, block, 0, bytes, source) {
            return Some(at);
        }
        space.share(block);
        self.no_hole_from = bytes;
        self.allocate_perfect(space, bytes, source)
    }

    /// Allocates on perfect pages: those at hand, or as many more as it takes.
    fn allocate_perfect(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        if let Some(at) = self.perfect.take(bytes) {
            return Some(at);
        }
        let (pages, range) = space.more_perfect_pages(self.perfect_pages, self.perfect, bytes, source)?;
        (self.perfect_pages, self.perfect) = (Some(pages), range);
        self.perfect.take(bytes)
    }

    /// Allocates in the first hole of a block, from a line on, that is large enough.
    fn overflow_in(
        &mut self,
        space: &mut ImmixSpace,
        block: HeapBlock,
        mut from: usize,
        bytes: u32,
        source: Source,
    ) -> Option<u32> {
        loop {
            let hole = space.hole(block, from, source)?;
            let mut range = space.range_of(hole);
            if let Some(at) = range.take(bytes) {
                (self.overflow, self.overflow_hole) = (range, Some(hole));
                return Some(at);
            }
            from = hole.next_line;
        }
    }

    /// Allocates no more in a block.
    pub(crate) fn leave(&mut self, block: HeapBlock) {
        if self.hole.is_some_and(|hole| hole.block == block) {
            (self.bump, self.hole) = (BumpRange::default(), None);
        }
        if self.overflow_hole.is_some_and(|hole| hole.block == block) {
            (self.overflow, self.overflow_hole) = (BumpRange::default(), None);
        }
        if self.perfect_pages.is_some_and(|pages| pages.block == block) {
            (self.perfect, self.perfect_pages) = (BumpRange::default(), None);
        }
    }

    /// Forgets its holes: a collection is about to find out what is free.
    pub(crate) fn retire(&mut self) {
        *self = Self::default();
    }
}

impl ImmixSpace {
    fn hole(&self, block: HeapBlock, from: usize, source: Source) -> Option<Hole> {
        let hole = self.lines.next_hole(block, from, source.unavailable())?;
        Some(Hole { block, first_line: hole.start, next_line: hole.end })
    }

    fn range_of(&self, hole: Hole) -> BumpRange {
        let offset = |line| hole.block.line_at(line, self.lines.size());
        BumpRange { cursor: offset(hole.first_line), limit: offset(hole.next_line) }
    }

    /// Notes what was allocated of a hole whose block may go to others.
    fn leave_overflow(&mut self, hole: Hole, cursor: u32) {
        let used = (cursor - hole.block.start()).div_ceil(self.lines.size().bytes()) as usize;
        self.lines.allocate(hole.block, hole.first_line..used.max(hole.first_line));
    }
}
