//! The page guard: every page of a program is verified before the program, or the kernel for it, sees a byte of it.
//!
//! **Problem.** Memory changes what it holds, and a program that reads it computes on. **Idea.** A page that was not
//! used of late is *locked*: it is not mapped where the program looks for it, and its codes are stored elsewhere. The
//! first access faults; the page is verified, corrected if need be, and *unlocked*; some time later it is locked again,
//! and its codes are made anew if it was written [Fiala15, 4.3]. **Why this way.** What is verified is what is about to
//! be used, no more; and what changes while nobody looks is found, however long that was.
//!
//! Rooms, from top to bottom; a room names only those below it.
//!
//! | room | what is in it |
//! |---|---|
//! | `page_guard` | what the threads of a guard call |
//! | `transitions` | how a block goes from state to state: unlock, lock, verify, prepare, replace |
//! | [`policy`] | which engine guards, how much may be unlocked, what is locked next, what is prepared ahead, how many tested frames are kept |
//! | [`settings`] | what was asked for |
//! | [`telemetry`] | what the guard makes known |
//! | [`engine`] | what a guard asks of the machine |
//! | [`state`] | the guarded range, and what is known of each block |
//!
//! What is decided here is decided by what was seen and by `now`; clock, faults and memory are handed in. So the same
//! guard runs over made-up memory in a test and under a real program.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `serde` (what is told).

#![forbid(unsafe_code)]

pub mod engine;
mod page_guard;
pub mod policy;
pub mod settings;
pub mod state;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod transitions;

pub use engine::{EngineRefusal, FrameHistory, GuardEngine, Writes};
pub use policy::pool_target::PoolTarget;
pub use policy::probation::Probation;
pub use policy::{engine_choice, pool_target as stock, probation};
pub use settings::bad_frames::BadFrames;
pub use settings::frames::{FrameSettings, Untested};
pub use settings::pages as knobs;
pub use settings::pages::{EngineKind, GuardSettings, OnError};
pub use settings::protect::{Protect, ProtectError};
pub use state::layout::{self, BlockIndex, Layout, PageIndex, PageSet, PageSpan};
pub use state::units::Units;
pub use telemetry::counts::{Counter, GuardCounts, Snapshot};
pub use telemetry::observer::{GuardObserver, Trouble};
pub use telemetry::{accesses, journal, liveness as server, samples};
pub use transitions::replace::{Replacement, ReplacementRound};
pub use transitions::{FaultOutcome, Guard};
