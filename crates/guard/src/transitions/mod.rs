//! The state machine over blocks: faults open them, the keeper locks them again.
//!
//! ```text
//!            first use                 the keeper: moved to the vault
//!  fresh ─────────────────► open ─────────────────────────────────────► stale
//!    ▲                       ▲ ▲                                          │ │
//!    │ forgotten             │ └──────── a fault: nothing to verify ──────┘ │ codes made of what
//!    │                       │                                              ▼ was written
//!    └── any state           └──────── a fault: verified, corrected ───── locked
//!
//!  ready: locked, and verified for a fault that is about to come; let go, it is as locked as before
//!  kept: open for good
//! ```
//!
//! Fresh and kept is a block; open, stale, ready and locked are units of one. How many units are opened for a fault is
//! decided by what the program did before: whole blocks for one that goes through its memory, since they may be huge
//! pages and cost one move; units for one that is here and there, since what is opened is verified, and counts as
//! unprotected.
//!
//! | module, from top to bottom | does |
//! |---|---|
//! | [`requests`] | what the program does with its memory beside touching it |
//! | [`replace`] | puts locked pages on tested frames |
//! | [`prepare`] | verifies or unlocks ahead of the program |
//! | [`lock`] | locks |
//! | [`unlock`] | unlocks |
//! | [`writes`] | watches for the first write to what was unlocked to be read |
//! | [`verify`] | makes codes, verifies pages by them, and corrects |
//! | [`accounting`] | counts what was done, and how long it took |
//!
//! Each module names only those below it, and all of them name [`Guard`], which is defined here.

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

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The program goes on.
    GoesOn,
    /// It must not: the page is beyond correction, and so it was wished.
    Stop,
    /// The program has the page for good: if it faults there again, the fault is its own affair.
    Left,
    /// The fault is not in the guarded range.
    Elsewhere,
}

/// A guard over one range.
pub struct Guard<'a, E: GuardEngine + ?Sized> {
    pub(crate) engine: Box<E>,
    pub(crate) knobs: GuardSettings,
    /// Openings that the kernel can keep apart.
    pub(crate) most: usize,
    pub(crate) codec: Codec,
    /// The codes of a page of zeros.
    pub(crate) zero_codes: Box<[u8]>,
    pub(crate) table: BlockTable,
    pub(crate) openings: Mutex<UnlockedQueue>,
    pub(crate) ahead: Mutex<Prefetcher>,
    pub(crate) rounds: Mutex<BlockRounds>,
    pub(crate) wanted: Mutex<PrefetchQueue>,
    pub(crate) averaged: Mutex<Timestamp>,
    /// Blocks up to the last that was ever in use.
    pub(crate) reach: AtomicU64,
    pub(crate) counts: &'a GuardCounts,
    pub(crate) witness: &'a dyn GuardObserver,
    pub(crate) clock: &'a (dyn Clock + Sync),
}

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// How the range is cut.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.table.layout()
    }

    pub(crate) fn openings(&self) -> MutexGuard<'_, UnlockedQueue> {
        self.openings.lock().expect("no panic")
    }

    pub(crate) fn ahead(&self) -> MutexGuard<'_, Prefetcher> {
        self.ahead.lock().expect("no panic")
    }

    pub(crate) fn rounds(&self) -> MutexGuard<'_, BlockRounds> {
        self.rounds.lock().expect("no panic")
    }

    pub(crate) fn wanted(&self) -> MutexGuard<'_, PrefetchQueue> {
        self.wanted.lock().expect("no panic")
    }
}
