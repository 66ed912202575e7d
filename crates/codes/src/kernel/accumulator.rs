//! Codes in the making: each takes eight lines of a page at a time.

use crate::{LINE_BYTES, PAGE_LINES};

/// Lines that are taken at once.
pub(super) const GROUP_LINES: usize = 8;

/// Bytes that are taken at once.
pub(super) const GROUP_BYTES: usize = GROUP_LINES * LINE_BYTES;

/// How many times that makes a page.
pub(super) const GROUPS: usize = PAGE_LINES / GROUP_LINES;

/// A CRC in the making, from a state of zero. It may take the page's bytes in any order.
pub(super) trait Crc {
    fn begin() -> Self;

    /// Takes one more eighth of the page.
    ///
    /// # Safety
    /// The processor has the instruction set; `page` is a page that may be read, and `group` is less than 8.
    unsafe fn take(&mut self, page: *const u8, group: usize);

    /// The state after the whole page.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn finish(self) -> u32;
}

/// What corrects, in the making.
pub(super) trait Check {
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn begin() -> Self;

    /// Takes eight lines more.
    ///
    /// # Safety
    /// 1. The processor has the instruction set.
    /// 2. `lines` are the page's lines from `8 * group` on, aligned to 64 bytes, and may be read.
    /// 3. `check` has room for the bytes of the scheme.
    unsafe fn take(&mut self, lines: *const u8, group: usize, check: *mut u8);

    /// Writes what is left to write.
    ///
    /// # Safety
    /// The processor has the instruction set, and `check` has room for the bytes of the scheme.
    unsafe fn finish(self, check: *mut u8);
}
