//! The options of a vault.

use crate::PageKind;
use crate::userfaultfd::{Features, Modes, Reach};

/// How the guard learns which pages were written while they were unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tracking {
    /// It does not: every page counts as written.
    Off,
    /// The first write to a protected page stops the writer and sends a message, as a locked page does, until
    /// [writes are allowed](super::Vault::allow_writes). Exact, and huge pages stay whole.
    Stopping,
    /// The kernel records a write and lets it go ahead; [the records](super::Vault::written) are read later. It costs
    /// no message, but the first write splits a huge page for good, and a write between reading the records and the
    /// move into the vault goes unseen: only for pages of 4 KiB, and while the program's threads do not run.
    Noting,
}

impl Tracking {
    /// The features that a userfaultfd must have.
    pub(crate) fn features(self) -> Features {
        let always = Features::MOVE.union(Features::THREAD_ID).union(Features::POISON);
        match self {
            Self::Off => always,
            Self::Stopping => always.union(Features::WRITE_PROTECT),
            Self::Noting => always.union(Features::WRITE_PROTECT).union(Features::WRITE_PROTECT_ASYNC),
        }
    }

    /// The modes in which both ranges are registered.
    pub(super) fn modes(self) -> Modes {
        match self {
            Self::Off => Modes::MISSING,
            Self::Stopping | Self::Noting => Modes::MISSING.union(Modes::WRITE_PROTECT),
        }
    }
}

/// How a vault is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VaultOptions {
    /// The kind of pages; there are no vaults of the huge-page pool, whose pages cannot be moved.
    pub kind: PageKind,
    /// How writes are noticed.
    pub tracking: Tracking,
    /// Whose faults must be served for the vault to be of use.
    pub least: Reach,
}
