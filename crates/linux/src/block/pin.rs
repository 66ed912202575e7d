//! Pins: they keep the pages of a block in their frames.
//!
//! **Problem.** A test of a frame is worth nothing if the page moves to another frame meanwhile, and the kernel moves
//! pages whenever it compacts memory. `mlock` only forbids swapping: of 32,753 locked pages, one compaction moved 603.
//! **Idea.** Register the memory as buffers of an `io_uring`. A device might write to them at any time, so the kernel
//! takes long-term pins (`FOLL_LONGTERM`), and pinned pages never move. No request is ever sent through the ring. **Why
//! this way.** Of all long-term pins it needs the least: no device, no privilege, only a locked-memory allowance.
//!
//! Where the ring is forbidden, pages of the kernel's huge-page pool are the next best, which compaction leaves alone,
//! and `mlock` is the last. [`Pinning`] names the means.

use super::mapping::Mapping;
use super::page_kind::PageKind;
use super::pinning::{PinRefusal, Pinning};
use super::registered::Registration;

/// A held pin; it must be dropped before its mapping.
#[derive(Debug, Default)]
pub(super) enum Pin {
    #[default]
    None,
    Locked,
    HugeTlb,
    Registered(#[expect(dead_code, reason = "held for what its drop undoes")] Registration),
}

impl Pin {
    /// The requested pin.
    pub(super) fn take(wanted: Pinning, mapping: &Mapping, kind: PageKind) -> Result<Self, PinRefusal> {
        match wanted {
            Pinning::None => Ok(Self::None),
            Pinning::Locked => mapping.lock().map(|()| Self::Locked).map_err(PinRefusal::Lock),
            Pinning::HugeTlb if kind == PageKind::HugeTlb => Ok(Self::HugeTlb),
            Pinning::HugeTlb => Err(PinRefusal::NotOfThePool),
            Pinning::Registered => Registration::take(mapping).map(Self::Registered),
        }
    }

    pub(super) fn pinning(&self) -> Pinning {
        match self {
            Self::None => Pinning::None,
            Self::Locked => Pinning::Locked,
            Self::HugeTlb => Pinning::HugeTlb,
            Self::Registered(_) => Pinning::Registered,
        }
    }
}
