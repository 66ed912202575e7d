//! The page guard: it verifies every page of a program before the program, or the kernel on its behalf, reads a byte of
//! it.
//!
//! **Problem.** Memory changes its content, and a program that reads wrong content computes on. **Idea.** A page that
//! was not used recently is *locked*: it is not mapped where the program expects it, and its codes are stored
//! elsewhere. The first access faults; the page is verified, corrected if needed, and *unlocked*; later it is locked
//! again, and gets new codes if it was written [Fiala15, 4.3]. **Why this way.** Only memory that is about to be used
//! is verified, and a change is found however long ago it happened.
//!
//! Rooms, from top to bottom; a room uses only those below it.
//!
//! | room | content |
//! |---|---|
//! | `page_guard` | the entry points for the guard's threads |
//! | `transitions` | the transitions of a block from state to state: unlock, lock, verify, prepare, replace |
//! | [`policy`] | which engine guards, how much may be unlocked, what is locked next, what is prefetched, how many tested frames are kept |
//! | [`settings`] | the user's settings |
//! | [`telemetry`] | what the guard reports |
//! | [`engine`] | the interface to the machine |
//! | [`state`] | the guarded range, and the state of each block |
//!
//! All decisions depend on observations and on `now`; clock, faults and memory are passed in. So the same guard runs
//! over fake memory in a test and under a real program.
//!
//! Libraries: `displaydoc` and `thiserror` (an error's doc comment is its message), `serde` (reports).

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
pub use policy::{engine_choice, pool_target, probation};
pub use settings::bad_frames::BadFrames;
pub use settings::frames::{FrameSettings, Untested};
pub use settings::pages::{EngineKind, GuardSettings, GuardSettingsError, OnError};
pub use settings::protect::{Protect, ProtectError};
pub use state::layout::{self, BlockIndex, Layout, PageIndex, PageSet, PageSpan};
pub use state::units::Units;
pub use telemetry::counts::{Counter, GuardCounts, Snapshot};
pub use telemetry::observer::{GuardObserver, Trouble};
pub use telemetry::{accesses, journal, liveness as server, samples};
pub use transitions::replace::{Replacement, ReplacementRound};
pub use transitions::{FaultOutcome, Guard};
