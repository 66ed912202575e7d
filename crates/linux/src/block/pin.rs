//! Pins: what keeps the pages of a block in their frames.
//!
//! **Problem.** A test of a frame is worth nothing if the page moves to another frame meanwhile, and the kernel moves
//! pages whenever it compacts memory. `mlock` only forbids swapping: of 32,753 locked pages, one compaction moved 603.
//! **Idea.** Register the memory as buffers of an `io_uring`. A device might write to them at any time, so the kernel
//! takes long-term pins (`FOLL_LONGTERM`), and pinned pages never move. No request is ever sent through the ring. **Why
//! this way.** Of all that pins for long it needs the least: no device, no privilege, only locked-memory allowance.
//!
//! Where the ring is forbidden, pages of the kernel's huge-page pool are the next best, which compaction leaves alone,
//! and `mlock` is the last. [`Pinning`] says what was had.

use rustix::io::Errno;
use serde::Serialize;

use super::PageKind;
use super::mapping::Mapping;
use super::registered::Registration;

/// What holds the pages of a block in their frames, from nothing to the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, displaydoc::Display)]
pub enum Pinning {
    /// not pinned: pages may move and be swapped out
    #[default]
    None,
    /// locked by mlock: in memory, but pages may move when the kernel compacts memory
    Locked,
    /// huge pages of the reserved pool: only offlining of memory moves them
    HugeTlb,
    /// registered as buffers of an io_uring: pages do not move
    Registered,
}

impl Pinning {
    /// Whether pages keep their frames while the kernel compacts memory.
    #[must_use]
    pub fn holds_frames(self) -> bool {
        self >= Self::HugeTlb
    }
}

/// Why a kind of pin was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum PinRefusal {
    /// no io_uring: {0}
    Ring(Errno),
    /// the kernel does not register this much memory: {0}
    Register(Errno),
    /// the block is not of the huge-page pool
    NotOfThePool,
    /// the kernel does not lock this much memory: {0}
    Lock(Errno),
}

impl PinRefusal {
    /// What to do about it, in one line.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Ring(Errno::MFILE | Errno::NFILE) => "raise the limit of open files (ulimit -n)",
            Self::Ring(_) => "sysctl kernel.io_uring_disabled=0; in a container, allow io_uring in its seccomp profile",
            Self::Register(_) | Self::Lock(_) => "raise the limit of locked memory (ulimit -l), or run as root",
            Self::NotOfThePool => "sysctl vm.nr_hugepages=N, and claim from the pool",
        }
    }
}

/// What [`super::Block::pin`] obtained, and why nothing better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinReport {
    /// What holds the pages now.
    pub pinning: Pinning,
    /// What was tried first and refused, best first; empty if the best was had.
    pub refusals: Vec<PinRefusal>,
}

/// A pin that is held; it must be dropped before its mapping.
#[derive(Debug, Default)]
pub(super) enum Pin {
    #[default]
    None,
    Locked,
    HugeTlb,
    Registered(#[expect(dead_code, reason = "held for what its drop undoes")] Registration),
}

impl Pin {
    /// The pin that is wanted.
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
