//! Memory for the tests of this folder.

mod against_naive;
mod naive;
mod runs;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use rampart_memory::{LineData, RegionLine};

use super::Region;

/// Lines at a multiple of 4 KiB, with a guard line at the end that no test may write.
pub(super) struct Memory {
    base: NonNull<u8>,
    lines: u64,
    layout: Layout,
}

const GUARD: LineData = LineData([0x6775_6172_6421_2121; 8]);

impl Memory {
    pub(super) fn new(lines: u64) -> Self {
        let bytes = usize::try_from((lines + 1) * 64).unwrap();
        let layout = Layout::from_size_align(bytes, 4096).unwrap();
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let memory = Self { base, lines, layout };
        memory.set(RegionLine(lines), GUARD);
        memory
    }

    /// The whole memory.
    pub(super) fn region(&self) -> Region<'_> {
        // SAFETY: 1. the lines were allocated, and live as long as `self`, which the region borrows; 2. and 3. no
        // reference is made to them, and a test that changes them while another region of them is in use emulates a
        // fault.
        unsafe { Region::from_raw(self.base, self.lines) }
    }

    /// The addresses of its whole pages, the last first.
    pub(super) fn pages_reversed(&self) -> Vec<NonNull<u8>> {
        let pages = usize::try_from(self.lines / 64).unwrap();
        // SAFETY: the pages were allocated.
        (0..pages).rev().map(|page| unsafe { self.base.add(page * 4096) }).collect()
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn get(&self, line: RegionLine) -> LineData {
        // SAFETY: `at` answers with allocated lines only.
        unsafe { self.at(line).read_volatile() }
    }

    /// Changes a line, also while a test runs on it, as a fault would.
    pub(super) fn set(&self, line: RegionLine, data: LineData) {
        // SAFETY: as for `get`.
        unsafe { self.at(line).write_volatile(data) }
    }

    /// The content of all lines. Panics if the line behind them was written.
    pub(super) fn content(&self) -> Vec<LineData> {
        assert_eq!(self.get(RegionLine(self.lines)), GUARD, "the line behind the region was written");
        (0..self.lines).map(|line| self.get(RegionLine(line))).collect()
    }

    fn at(&self, line: RegionLine) -> *mut LineData {
        assert!(line.0 <= self.lines);
        // SAFETY: the line was allocated.
        unsafe { self.base.as_ptr().cast::<LineData>().add(usize::try_from(line.0).unwrap()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
