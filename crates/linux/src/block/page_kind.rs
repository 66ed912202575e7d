//! Kinds of pages that a block can have.

use rampart_memory::{Bytes, FRAME_BYTES};

use super::mapping::HUGE_BYTES;

/// What a block is mapped with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Pages of 4 KiB.
    Base,
    /// Transparent huge pages of 2 MiB where the kernel has them to give, pages of 4 KiB elsewhere.
    #[default]
    Huge,
    /// Pages of 2 MiB from the pool that the administrator reserved (`vm.nr_hugepages`), or none.
    HugeTlb,
}

impl PageKind {
    /// What the size of a block must be a multiple of.
    #[must_use]
    pub const fn granule(self) -> Bytes {
        match self {
            Self::Base | Self::Huge => Bytes::new(FRAME_BYTES),
            Self::HugeTlb => Bytes::new(HUGE_BYTES as u64),
        }
    }
}
