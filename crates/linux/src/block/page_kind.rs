//! The kinds of pages of a block.

use rampart_memory::{Bytes, FRAME_BYTES};

use super::mapping::HUGE_BYTES;

/// The kind of pages of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Pages of 4 KiB.
    Base,
    /// Transparent huge pages of 2 MiB where the kernel has some, pages of 4 KiB elsewhere.
    #[default]
    Huge,
    /// Pages of 2 MiB from the pool that the administrator reserved (`vm.nr_hugepages`), or none.
    HugeTlb,
}

impl PageKind {
    /// The granularity of a block's size.
    #[must_use]
    pub const fn granule(self) -> Bytes {
        match self {
            Self::Base | Self::Huge => Bytes::new(FRAME_BYTES),
            Self::HugeTlb => Bytes::new(HUGE_BYTES as u64),
        }
    }
}
