//! The state machine of blocks: faults unlock them, the maintenance thread locks them again.
//!
//! ```text
//!             first use                  the maintenance thread: moved to the vault
//!  untouched ───────────► unlocked ───────────────────────────────────────────► pending
//!    ▲                       ▲ ▲                                                  │ │
//!    │ forgotten             │ └──────── a fault: nothing to verify ──────────────┘ │ new codes for
//!    │                       │                                                      ▼ written pages
//!    └── any state           └──────── a fault: verified, corrected ───────────── locked
//!
//!  pre-verified: locked, and verified for an expected fault; if discarded, as locked as before
//!  excluded: unlocked until the process ends
//! ```
//!
//! A block is untouched or excluded as a whole; units of a used block are unlocked, pending, pre-verified or locked.
//! The number of units that a fault unlocks depends on the program's access pattern: whole blocks for a sequential one,
//! since they may be huge pages and cost one move; units for an irregular one, since unlocked memory must be verified
//! first, and counts as unprotected.
//!
//! | module, from top to bottom | does |
//! |---|---|
//! | [`requests`] | the program's operations on its memory besides touching it |
//! | [`replace`] | moves locked pages to tested frames |
//! | [`prepare`] | verifies or unlocks ahead of the program |
//! | [`lock`] | locks |
//! | [`unlock`] | unlocks |
//! | [`writes`] | watches for the first write to memory that was unlocked for a read |
//! | [`verify`] | makes codes, verifies pages by them, and corrects |
//! | [`accounting`] | counts the work and its time |
//!
//! Each module uses only those below it, and all of them use [`Guard`], which is defined here.

mod accounting;
mod lock;
mod prepare;
pub(crate) mod replace;
mod requests;
pub(crate) mod unlock;
mod verify;
mod writes;

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

use rampart_codes::Codec;
use rampart_memory::{Clock, Timestamp};

use crate::engine::GuardEngine;
use crate::policy::prefetch::queue::PrefetchQueue;
use crate::policy::prefetch::rounds::BlockRounds;
use crate::policy::prefetch::streams::Prefetcher;
use crate::policy::unlocked_queue::UnlockedQueue;
use crate::settings::pages::GuardSettings;
use crate::state::layout::Layout;
use crate::state::table::BlockTable;
use crate::telemetry::counts::GuardCounts;
use crate::telemetry::observer::GuardObserver;

/// The result of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The program goes on.
    GoesOn,
    /// The program must stop: the page is beyond correction, and the settings say so.
    Stop,
    /// The page is excluded: another fault there is the program's own affair.
    Left,
    /// The fault is not in the guarded range.
    Elsewhere,
}

/// A guard over one range.
pub struct Guard<'a, E: GuardEngine + ?Sized> {
    pub(crate) engine: Box<E>,
    pub(crate) settings: GuardSettings,
    /// The most mappings that the kernel keeps apart.
    pub(crate) most: usize,
    pub(crate) codec: Codec,
    /// The codes of a zero page.
    pub(crate) zero_codes: Box<[u8]>,
    pub(crate) table: BlockTable,
    pub(crate) queue: Mutex<UnlockedQueue>,
    pub(crate) ahead: Mutex<Prefetcher>,
    pub(crate) rounds: Mutex<BlockRounds>,
    pub(crate) prefetch_queue: Mutex<PrefetchQueue>,
    pub(crate) averaged: Mutex<Timestamp>,
    /// Blocks up to the last one that was ever in use.
    pub(crate) reach: AtomicU64,
    pub(crate) counts: &'a GuardCounts,
    pub(crate) observer: &'a dyn GuardObserver,
    pub(crate) clock: &'a (dyn Clock + Sync),
}

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// The division of the range.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.table.layout()
    }

    pub(crate) fn unlocked_queue(&self) -> MutexGuard<'_, UnlockedQueue> {
        self.queue.lock().expect("no panic")
    }

    pub(crate) fn prefetcher(&self) -> MutexGuard<'_, Prefetcher> {
        self.ahead.lock().expect("no panic")
    }

    pub(crate) fn rounds(&self) -> MutexGuard<'_, BlockRounds> {
        self.rounds.lock().expect("no panic")
    }

    pub(crate) fn prefetch_queue(&self) -> MutexGuard<'_, PrefetchQueue> {
        self.prefetch_queue.lock().expect("no panic")
    }
}
