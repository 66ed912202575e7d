//! The memory under test, as addresses and never as references.

use std::marker::PhantomData;
use std::ptr::NonNull;

use rampart_linux::kernel_module::FrameAccess;
use rampart_memory::{Bytes, FRAME_BYTES, LINE_BYTES, LINES_PER_FRAME, RegionLine};

/// Memory that a test may write: proof that nobody else reads it, writes it or holds a reference to it.
///
/// Its lines are numbered from 0, in the order of its addresses or of its pages.
#[derive(Debug)]
pub struct Region<'a> {
    memory: Memory<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Memory<'a> {
    /// One range of addresses.
    Whole { base: NonNull<u8>, lines: u64, owner: PhantomData<&'a mut [u8]> },
    /// Pages anywhere.
    Pages(&'a [NonNull<u8>]),
}

/// Lines a constant distance apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// The first line.
    pub first: *mut u8,
    /// The distance from one to the next, in bytes.
    pub stride: isize,
    /// The number of lines; at least 1.
    pub count: u64,
}

/// Lines a constant number of lines apart: `line`, `line + stride`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leg {
    pub line: RegionLine,
    pub stride: i64,
    /// The number of lines; at least 1.
    pub count: u64,
}

impl<'a> Region<'a> {
    /// `lines` lines of 64 bytes from `base` on. Panics if there are none, or if `base` is not at a multiple of 4 KiB.
    ///
    /// # Safety
    /// As long as the region lives:
    /// 1. the lines are readable and writable memory of this process, ordinary (write-back) and not a device's;
    /// 2. no other thread and no device reads or writes them, except to emulate a fault;
    /// 3. there is no reference to any part of them.
    #[must_use]
    pub unsafe fn from_raw(base: NonNull<u8>, lines: u64) -> Self {
        assert!(lines > 0, "a region has lines");
        assert!(
            isize::try_from(lines).is_ok_and(|lines| lines <= isize::MAX / 64),
            "a region lies inside the addresses"
        );
        assert_page(base);
        Self { memory: Memory::Whole { base, lines, owner: PhantomData } }
    }

    /// The pages of 4 KiB at these addresses, as one region in the order of the list. For frames that were handed out
    /// one by one; a test by columns visits them line by line, and slowly. Panics if there are none, or if one is not
    /// at a multiple of 4 KiB.
    ///
    /// # Safety
    /// As for [`Region::from_raw`], for each page; and no page is in the list twice.
    #[must_use]
    pub unsafe fn from_pages(pages: &'a [NonNull<u8>]) -> Self {
        assert!(!pages.is_empty(), "a region has pages");
        pages.iter().copied().for_each(assert_page);
        Self { memory: Memory::Pages(pages) }
    }

    /// The number of lines; at least 1.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        match self.memory {
            Memory::Whole { lines, .. } => lines,
            Memory::Pages(pages) => pages.len() as u64 * LINES_PER_FRAME,
        }
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        Bytes::new(self.lines() * LINE_BYTES)
    }

    /// Its first pages, at most this many (not 0).
    pub(super) fn first_pages(&mut self, pages: usize) -> Region<'_> {
        let memory = match self.memory {
            Memory::Whole { base, lines, owner } => {
                Memory::Whole { base, lines: lines.min(pages as u64 * LINES_PER_FRAME), owner }
            }
            Memory::Pages(all) => Memory::Pages(&all[..all.len().min(pages)]),
        };
        Region { memory }
    }

    /// The address of a line.
    pub(super) fn at(&self, line: RegionLine) -> *mut u8 {
        assert!(line.0 < self.lines(), "line {} lies in the region", line.0);
        let (base, offset) = match self.memory {
            Memory::Whole { base, .. } => (base, line.0 * LINE_BYTES),
            Memory::Pages(pages) => (pages[index(line.page())], u64::from(line.in_page()) * LINE_BYTES),
        };
        // SAFETY: the line lies in the region, as just asserted, so the sum lies in its memory (`from_raw`, 1).
        unsafe { base.as_ptr().add(index(offset)) }
    }

    /// All its lines, as few stretches in the order of their addresses in each.
    pub(super) fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        let count = match self.memory {
            Memory::Whole { lines, .. } => lines,
            Memory::Pages(_) => LINES_PER_FRAME,
        };
        let firsts = (0..self.lines()).step_by(index(count));
        firsts.map(move |first| self.stretch(Leg { line: RegionLine(first), stride: 1, count }))
    }

    /// The part of a leg that has a constant stride in memory too, from its first line on.
    pub(super) fn stretch(&self, leg: Leg) -> Stretch {
        let stride = isize::try_from(leg.stride * LINE_BYTES.cast_signed()).expect("a stride is less than the region");
        let count = match self.memory {
            Memory::Whole { .. } => leg.count,
            Memory::Pages(_) => {
                let rest = if leg.stride > 0 { LINES_PER_FRAME - 1 - in_page(leg.line) } else { in_page(leg.line) };
                leg.count.min(rest / leg.stride.unsigned_abs() + 1)
            }
        };
        Stretch { first: self.at(leg.line), stride, count }
    }
}

impl<'a> From<&'a mut rampart_linux::Block> for Region<'a> {
    fn from(block: &'a mut rampart_linux::Block) -> Self {
        // SAFETY: 1. a block is private anonymous memory of this process, all of it present, until it is dropped; 2.
        // the block is borrowed for the region's life, and it alone hands out its address; 3. it makes no reference to
        // it.
        unsafe { Self::from_raw(block.base(), lines_in(block.bytes().get())) }
    }
}

impl<'a> From<&'a mut FrameAccess<'_>> for Region<'a> {
    fn from(access: &'a mut FrameAccess<'_>) -> Self {
        // SAFETY: 1. the window of claimed frames is cached memory, mapped until the access is dropped, and where the
        // frames are taken away, other memory of this process comes into their place; 2. claimed frames are used by
        // nobody else, and the access is borrowed for the region's life; 3. it makes no reference to them.
        unsafe { Self::from_raw(access.base(), lines_in(access.bytes() as u64)) }
    }
}

fn assert_page(base: NonNull<u8>) {
    assert!((base.as_ptr().addr() as u64).is_multiple_of(FRAME_BYTES), "a region consists of pages");
}

const fn lines_in(bytes: u64) -> u64 {
    bytes / LINE_BYTES
}

fn in_page(line: RegionLine) -> u64 {
    line.in_page().into()
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("an offset in memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::tests::Memory as TestMemory;

    #[test]
    #[should_panic(expected = "a region consists of pages")]
    fn a_region_begins_with_a_page() {
        let memory = TestMemory::new(65);
        let second = NonNull::new(memory.region().at(RegionLine(1))).expect("an address");
        // SAFETY: it panics before the line is used.
        let _ = unsafe { Region::from_raw(second, 64) };
    }

    /// The addresses of the lines of a stretch, from the start of `memory` on, in lines.
    fn lines_of(memory: &TestMemory, stretch: Stretch) -> Vec<isize> {
        let start = memory.region().at(RegionLine(0)).addr();
        let first = stretch.first.addr().wrapping_sub(start).cast_signed();
        (0_isize..).take(index(stretch.count)).map(|line| (first + line * stretch.stride) / 64).collect()
    }

    #[test]
    fn the_stretches_of_a_region_are_all_its_lines() {
        let memory = TestMemory::new(192);
        let all = |region: &Region<'_>| -> Vec<Vec<isize>> {
            region.stretches().map(|stretch| lines_of(&memory, stretch)).collect()
        };
        assert_eq!(all(&memory.region()), [(0..192).collect::<Vec<_>>()]);
        let pages = memory.pages_reversed();
        // SAFETY: the pages are the memory's own, each once, and nobody uses them.
        let region = unsafe { Region::from_pages(&pages) };
        assert_eq!(all(&region), [128, 64, 0].map(|first| (first..first + 64).collect::<Vec<_>>()));
    }

    #[test]
    fn a_leg_is_one_stretch_in_one_range_and_ends_with_its_page_in_a_list_of_pages() {
        let memory = TestMemory::new(192);
        let pages = memory.pages_reversed();
        // SAFETY: as above.
        let paged = unsafe { Region::from_pages(&pages) };
        let lines = |region: &Region<'_>, line, stride, count| {
            lines_of(&memory, region.stretch(Leg { line: RegionLine(line), stride, count }))
        };
        assert_eq!(lines(&memory.region(), 62, 1, 4), [62, 63, 64, 65]);
        assert_eq!(lines(&memory.region(), 130, -40, 3), [130, 90, 50]);
        assert_eq!(lines(&paged, 62, 1, 4), [128 + 62, 128 + 63]);
        assert_eq!(lines(&paged, 66, -1, 9), [64 + 2, 64 + 1, 64]);
        assert_eq!(lines(&paged, 0, 21, 9), [128, 128 + 21, 128 + 42, 128 + 63]);
        assert_eq!(lines(&paged, 64 + 63, -40, 4), [64 + 63, 64 + 23]);
    }

    #[test]
    fn the_first_pages_of_a_region_are_at_most_so_many() {
        let memory = TestMemory::new(150);
        assert_eq!([1, 2, 3].map(|pages| memory.region().first_pages(pages).lines()), [64, 128, 150]);
        let pages = memory.pages_reversed();
        // SAFETY: as above.
        let mut paged = unsafe { Region::from_pages(&pages) };
        assert_eq!([1, 2, 3].map(|pages| paged.first_pages(pages).lines()), [64, 128, 128]);
    }
}
