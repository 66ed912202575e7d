//! Sizes and places in the heap: an object is named by its offset into one region of 4 GiB.

use std::num::NonZeroU32;

use rampart_memory::{FRAME_BYTES, LINE_BYTES};

use crate::wear::FailedLines;

/// The size of a block [Gao13, 4.1].
pub const BLOCK_BYTES: u32 = 32 << 10;

/// The size of a page.
pub const PAGE: u32 = 4096;

/// The size of a line of the memory.
pub const MEMORY_LINE: u32 = 64;

const _: () = assert!(PAGE as u64 == FRAME_BYTES && MEMORY_LINE as u64 == LINE_BYTES);

/// How many pages a block has.
pub const BLOCK_PAGES: usize = (BLOCK_BYTES / PAGE) as usize;

/// Whether lines can fail. A bench compiles the failed state out, to measure what it costs (`cargo xtask bench heap`).
pub(crate) const CAN_FAIL: bool = !cfg!(rampart_no_failures);

/// All objects begin at multiples of this, and all sizes are multiples of it; a model can ask for more
/// ([`ObjectModel::ALIGN`](crate::ObjectModel::ALIGN)).
pub(crate) const LEAST_ALIGN: u32 = 8;

/// An object, by the offset of its first byte in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef(NonZeroU32);

/// A block, by its number from the start of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeapBlock(u32);

/// The size of the lines in which the heap keeps account, which are one line of the memory or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineSize {
    /// 64 B, as the memory has them.
    L64,
    /// 128 B.
    L128,
    /// 256 B: the best without failures, and with clustered ones [Gao13, 6.3].
    #[default]
    L256,
}

impl ObjectRef {
    /// The object at an offset; `None` for 0, which is no object.
    #[must_use]
    pub const fn new(offset: u32) -> Option<Self> {
        match NonZeroU32::new(offset) {
            Some(offset) => Some(Self(offset)),
            None => None,
        }
    }

    /// The offset of its first byte.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.0.get()
    }

    /// The block that it lies in, if it is none of the large objects.
    pub(crate) const fn block(self) -> HeapBlock {
        HeapBlock::at(self.offset())
    }
}

impl HeapBlock {
    pub(crate) fn new(number: usize) -> Self {
        Self(narrow(number))
    }

    /// The block at an offset.
    pub(crate) const fn at(offset: u32) -> Self {
        Self(offset / BLOCK_BYTES)
    }

    /// The number, from 0.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// The offset of its first byte.
    #[must_use]
    pub const fn start(self) -> u32 {
        self.0 * BLOCK_BYTES
    }

    /// The offset of a line of the memory in it, by its index, or of its end.
    pub(crate) fn line_at(self, line: usize) -> u32 {
        self.start() + narrow(line) * MEMORY_LINE
    }

    /// The offset of a page of it, by its index, or of its end.
    pub(crate) fn page_at(self, page: usize) -> u32 {
        self.start() + narrow(page) * PAGE
    }
}

impl LineSize {
    /// All sizes, ascending.
    pub const ALL: [Self; 3] = [Self::L64, Self::L128, Self::L256];

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// The size in bytes, as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::L64 => "64",
            Self::L128 => "128",
            Self::L256 => "256",
        }
    }

    /// The size of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.name() == name)
    }

    /// The binary logarithm of the size.
    pub(crate) const fn shift(self) -> u32 {
        match self {
            Self::L64 => 6,
            Self::L128 => 7,
            Self::L256 => 8,
        }
    }

    /// How many lines of the memory it has.
    pub(crate) const fn memory_lines(self) -> u32 {
        self.bytes() / MEMORY_LINE
    }

    /// How many of them a block has.
    pub(crate) const fn per_block(self) -> usize {
        (BLOCK_BYTES >> self.shift()) as usize
    }

    /// How many of them a page has.
    pub(crate) const fn per_page(self) -> usize {
        (PAGE >> self.shift()) as usize
    }
}

/// What a failed line of the memory takes from the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureGrain {
    /// Itself: the rest of a larger line of the heap stays of use.
    #[default]
    MemoryLine,
    /// The line of the heap that it is in, with false failures if that is larger [Gao13, 6.2].
    HeapLine,
}

impl FailureGrain {
    /// The lines of a page that are lost.
    pub(crate) fn widened(self, failed: FailedLines, size: LineSize) -> FailedLines {
        let each = size.memory_lines();
        if self == Self::MemoryLine || each == 1 {
            return failed;
        }
        let whole = u64::MAX >> (u64::BITS - each);
        let lost = failed.lines().map(|line| whole << (line / each * each));
        FailedLines::from_bits(lost.fold(0, |all, lost| all | lost))
    }
}

/// Converts a count: a region has fewer than 2^32 parts.
pub(crate) fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a region has fewer parts than bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_line_is_named_by_its_bytes() {
        for size in LineSize::ALL {
            assert_eq!((size.name(), LineSize::named(size.name())), (size.bytes().to_string().as_str(), Some(size)));
        }
        assert_eq!(["32", "512", "", "L64"].map(LineSize::named), [None; 4]);
    }
}
