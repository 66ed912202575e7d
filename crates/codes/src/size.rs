//! The size of a page, in bytes and lines.

pub use rampart_memory::PAGE_BYTES;

/// Lines of a page.
pub const PAGE_LINES: usize = 64;

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = PAGE_BYTES / PAGE_LINES;

const _: () = assert!(PAGE_LINES as u64 == rampart_memory::LINES_PER_FRAME);
