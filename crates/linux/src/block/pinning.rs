//! How well pages are pinned, and why not better.

use rustix::io::Errno;
use serde::Serialize;

/// The means that keeps the pages of a block in their frames, from none to the best.
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

/// Why a kind of pin was refused.
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
    /// The remedy, in one line.
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

/// The result of [`super::Block::pin`], and why it is not better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinReport {
    /// The present pin.
    pub pinning: Pinning,
    /// Better pins that were tried first and refused, best first; empty if the best was obtained.
    pub refusals: Vec<PinRefusal>,
}
