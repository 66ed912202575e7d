//! Partial codes: each takes eight lines of a page at a time.

use crate::{LINE_BYTES, PAGE_LINES};

/// Lines taken at once.
pub(super) const GROUP_LINES: usize = 8;

/// Bytes taken at once.
pub(super) const GROUP_BYTES: usize = GROUP_LINES * LINE_BYTES;

/// The number of groups in a page.
pub(super) const GROUPS: usize = PAGE_LINES / GROUP_LINES;

/// A partial CRC, from a state of zero. It may take the page's bytes in any order.
pub(super) trait Crc {
    fn begin() -> Self;

    /// Takes another eighth of the page.
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

/// A partial correcting code.
pub(super) trait Check {
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn begin() -> Self;

    /// Takes eight more lines.
    ///
    /// # Safety
    /// 1. The processor has the instruction set.
    /// 2. `lines` are the page's lines from `8 * group` on, aligned to 64 bytes, and may be read.
    /// 3. `check` has room for the bytes of the scheme.
    unsafe fn take(&mut self, lines: *const u8, group: usize, check: *mut u8);

    /// Writes the rest.
    ///
    /// # Safety
    /// The processor has the instruction set, and `check` has room for the bytes of the scheme.
    unsafe fn finish(self, check: *mut u8);
}
