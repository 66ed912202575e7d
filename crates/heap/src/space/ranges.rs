//! Memory that an allocator has at hand.

use crate::geometry::{HeapBlock, LEAST_ALIGN};

/// Memory in which objects are allocated one behind the other: offsets in the region. Compiled code may do that itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BumpRange {
    /// Where the next object goes.
    pub cursor: u32,
    /// The end.
    pub limit: u32,
}

/// A block on perfect pages alone, which come one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PerfectPages {
    pub block: HeapBlock,
    /// How many it has; they lie at its start.
    pub count: usize,
}

impl BumpRange {
    /// How many bytes are left.
    pub(crate) const fn left(self) -> u32 {
        self.limit - self.cursor
    }

    /// Takes `bytes`, a multiple of `LEAST_ALIGN`, if there are as many.
    #[inline]
    pub fn take(&mut self, bytes: u32) -> Option<u32> {
        debug_assert!(bytes.is_multiple_of(LEAST_ALIGN));
        // No overflow: both are offsets, and the difference is what is left.
        if self.limit - self.cursor < bytes {
            return None;
        }
        let at = self.cursor;
        self.cursor += bytes;
        Some(at)
    }
}
