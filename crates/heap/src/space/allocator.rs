//! Allocation by bumping a pointer through holes [Gao13, 4.1] and 4.2.
//!
//! Small objects fill hole after hole of the block at hand. An object that does not fit the present hole, and may not
//! fit the next either, uses overflow allocation, which tries in this order:
//!
//! 1. the rest of the hole that it used last;
//! 2. the next hole of that block that is long enough;
//! 3. another block that is known to have one;
//! 4. a new block;
//! 5. a search of the blocks in use for a hole that just fits;
//! 6. perfect pages.
//!
//! Once a new block and a search had no such hole, objects of this size or larger skip 2 to 5 until the next
//! collection. If there are no perfect pages either, they try 2 to 5 with every free block, and last a later hole of
//! the block in which small objects are allocated. What an overflow block has left goes back to those that have holes.
//!
//! A compacting collection is to empty whole pages. So it begins no new block that objects of this size would fill to
//! less than half, and takes perfect pages instead.

use super::free_lines::{BLOCK_LINES, FreeLines, LineRange};
use super::immix_space::{ImmixSpace, Source};
use super::ranges::{BumpRange, PerfectPages};
use crate::geometry::{CAN_FAIL, HeapBlock, MEMORY_LINE};

/// The holes of a block that an allocator has to itself.
#[derive(Clone, Copy, Debug)]
struct Holes {
    block: HeapBlock,
    free: FreeLines,
    /// Where the hole at hand begins, and where the search for the next one.
    start: usize,
    end: usize,
}

/// The allocator of one thread.
#[derive(Debug)]
pub struct LocalAllocator {
    /// The present hole.
    pub bump: BumpRange,
    holes: Option<Holes>,
    /// Whether holes of that block may be shorter than a line of the heap, as lines have failed.
    is_uneven: bool,
    overflow: BumpRange,
    overflow_holes: Option<Holes>,
    /// Objects of this size or larger go to perfect pages until the next collection, as a new block had no hole for
    /// one, or too few in a compacting collection; `u32::MAX` if there was no such object.
    no_hole_from: u32,
    /// Perfect pages for objects that fit no hole.
    perfect: BumpRange,
    perfect_pages: Option<PerfectPages>,
}

impl Default for LocalAllocator {
    /// It has nothing at hand.
    fn default() -> Self {
        Self {
            bump: BumpRange::default(),
            holes: None,
            is_uneven: false,
            overflow: BumpRange::default(),
            overflow_holes: None,
            no_hole_from: u32::MAX,
            perfect: BumpRange::default(),
            perfect_pages: None,
        }
    }
}

impl Holes {
    /// Finds those of a block, in place, as the value is large. Returns whether lines of the block have failed.
    #[inline]
    fn find(place: &mut Option<Self>, space: &ImmixSpace, block: HeapBlock) -> bool {
        let holes = place.insert(Self { block, free: FreeLines::default(), start: 0, end: 0 });
        space.lines.find_free(block, &mut holes.free)
    }

    /// The next hole of so many lines.
    #[inline]
    fn next_of(&mut self, lines: usize) -> Option<BumpRange> {
        let LineRange { start, end } = self.free.next_hole_of(lines, self.end)?;
        (self.start, self.end) = (start, end);
        Some(BumpRange { cursor: self.block.line_at(start), limit: self.block.line_at(end) })
    }
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
        let taken = if bytes <= space.lines.size().bytes() {
            self.allocate_in_next_hole(space, bytes, source)
        } else {
            self.allocate_overflow(space, bytes, source)
        };
        space.note_refusal(taken, source)
    }

    /// Allocates an object that fits any hole but those that failed lines make short.
    #[inline]
    fn allocate_in_next_hole(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        if !(CAN_FAIL && self.is_uneven && self.is_worth_keeping(bytes)) {
            let Some(hole) = self.next_hole(space, source) else { return self.take_overflow(space, bytes) };
            self.bump = hole;
            if let Some(at) = self.bump.take(bytes) {
                return Some(at);
            }
        }
        self.allocate_overflow(space, bytes, source)
    }

    /// Whether what is left of the hole at hand is worth keeping, as the next one may be shorter than the object.
    #[cold]
    #[inline(never)]
    const fn is_worth_keeping(&self, bytes: u32) -> bool {
        bytes > MEMORY_LINE && self.bump.left() >= MEMORY_LINE
    }

    /// The next hole of the block at hand, or of the next block.
    fn next_hole(&mut self, space: &mut ImmixSpace, source: Source) -> Option<BumpRange> {
        loop {
            if let Some(hole) = self.holes.as_mut().and_then(|holes| holes.next_of(1)) {
                return Some(hole);
            }
            let block = space.next_block(source)?;
            self.is_uneven = Holes::find(&mut self.holes, space, block) && space.lines.has_short_holes();
        }
    }

    /// Allocates in a later hole of the block at hand, if there is no other room: the shorter ones before it are given
    /// up.
    fn allocate_ahead(&mut self, bytes: u32) -> Option<u32> {
        self.bump = self.holes.as_mut()?.next_of(bytes.div_ceil(MEMORY_LINE) as usize)?;
        self.bump.take(bytes)
    }

    /// Allocates an object that may not fit the next hole.
    #[inline]
    fn allocate_overflow(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        // Most often, the hole that was used last has room.
        self.overflow.take(bytes).or_else(|| self.allocate_overflow_elsewhere(space, bytes, source))
    }

    /// Not inlined: most objects do not come here.
    #[inline(never)]
    fn allocate_overflow_elsewhere(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        let may_fit = !CAN_FAIL || bytes < self.no_hole_from;
        let known = if may_fit { self.allocate_in_known_hole(space, bytes) } else { None };
        known.or_else(|| self.search_overflow(space, bytes, source)).or_else(|| self.allocate_ahead(bytes))
    }

    /// The next hole that is long enough, of the overflow block or of those that are known to have one.
    #[inline]
    fn allocate_in_known_hole(&mut self, space: &mut ImmixSpace, bytes: u32) -> Option<u32> {
        loop {
            if let Some(at) = self.take_overflow(space, bytes) {
                return Some(at);
            }
            let block = space.block_with(bytes.div_ceil(MEMORY_LINE) as usize)?;
            Holes::find(&mut self.overflow_holes, space, block);
        }
    }

    /// A hole of a new block, or perfect pages, or what a search finds.
    #[cold]
    #[inline(never)]
    fn search_overflow(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        let mut is_refused = false;
        if CAN_FAIL && bytes >= self.no_hole_from {
            if let Some(at) = self.allocate_perfect(space, bytes, source) {
                return Some(at);
            }
            is_refused = true;
        }
        let lines = bytes.div_ceil(MEMORY_LINE) as usize;
        let mut is_new = false;
        loop {
            if let Some(at) = self.allocate_in_known_hole(space, bytes) {
                return Some(at);
            }
            if !is_new || is_refused {
                is_new = true;
                if let Some(block) = space.new_block(source) {
                    Holes::find(&mut self.overflow_holes, space, block);
                    if source != Source::Compaction || is_refused || self.overflow_suits(lines) {
                        continue;
                    }
                    // As free pages, these may pay for borrowed ones.
                    self.overflow_holes = None;
                    space.put_back(block);
                }
            }
            if let Some(block) = space.block_searched(lines) {
                Holes::find(&mut self.overflow_holes, space, block);
                continue;
            }
            if is_refused {
                return None;
            }
            if let Some(at) = self.allocate_perfect(space, bytes, source) {
                self.no_hole_from = bytes;
                return Some(at);
            }
            is_refused = true;
        }
    }

    /// Whether objects of so many lines each would fill at least half of the overflow block. If not, perfect pages for
    /// them cost the heap less than the block, even if each is borrowed and costs two.
    fn overflow_suits(&self, lines: usize) -> bool {
        let holes = self.overflow_holes.iter().flat_map(|holes| holes.free.holes());
        holes.map(|hole| hole.len() / lines * lines).sum::<usize>() >= BLOCK_LINES / 2
    }

    /// Allocates in the overflow block; if that has no such hole, it goes to others.
    fn take_overflow(&mut self, space: &mut ImmixSpace, bytes: u32) -> Option<u32> {
        if let Some(at) = self.overflow.take(bytes) {
            return Some(at);
        }
        let mut holes = self.overflow_holes.take()?;
        space.leave_overflow(&mut holes, self.overflow.cursor);
        self.overflow = holes.next_of(bytes.div_ceil(MEMORY_LINE) as usize).unwrap_or_default();
        if self.overflow.left() == 0 {
            space.share(holes.block, &holes.free);
            return None;
        }
        self.overflow_holes = Some(holes);
        self.overflow.take(bytes)
    }

    /// Allocates on perfect pages: those at hand, or as many more as it takes.
    fn allocate_perfect(&mut self, space: &mut ImmixSpace, bytes: u32, source: Source) -> Option<u32> {
        if !space.has_use_for_perfect_pages(source) {
            return None;
        }
        if let Some(at) = self.perfect.take(bytes) {
            return Some(at);
        }
        let (pages, range) = space.more_perfect_pages(self.perfect_pages, self.perfect, bytes, source)?;
        (self.perfect_pages, self.perfect) = (Some(pages), range);
        self.perfect.take(bytes)
    }

    /// The block whose holes it fills, with its free lines, and where the search for the next hole begins: what
    /// compiled code needs to go on by itself.
    pub(crate) fn at_hand(&self) -> Option<(HeapBlock, FreeLines, usize)> {
        self.holes.map(|holes| (holes.block, holes.free, holes.end))
    }

    /// Compiled code has allocated by itself: this is what is left, of the hole that was at hand or of a later one in
    /// the same block.
    pub(crate) fn went_on(&mut self, bump: BumpRange) {
        if let Some(holes) = self.holes.as_mut().filter(|_| bump.limit != self.bump.limit) {
            holes.end = ((bump.limit - holes.block.start()) / MEMORY_LINE) as usize;
        }
        self.bump = bump;
    }

    /// Allocates no more in the hole at hand, nor in those behind it.
    pub(crate) fn leave_hole(&mut self) {
        (self.bump, self.holes) = (BumpRange::default(), None);
    }

    /// Allocates no more in a block.
    pub(crate) fn leave(&mut self, block: HeapBlock) {
        if self.holes.as_ref().is_some_and(|holes| holes.block == block) {
            self.leave_hole();
        }
        if self.overflow_holes.as_ref().is_some_and(|holes| holes.block == block) {
            (self.overflow, self.overflow_holes) = (BumpRange::default(), None);
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
    /// Notes what was allocated of a hole whose block may go to others.
    fn leave_overflow(&mut self, holes: &mut Holes, cursor: u32) {
        let used = cursor.saturating_sub(holes.block.start()).div_ceil(MEMORY_LINE) as usize;
        let used = self.lines.allocate(holes.block, holes.start..used.max(holes.start));
        holes.free.remove(used);
    }
}
