//! The online diagnostic: memory is tested while the machine works [Rahman16, ch. 3 and 4].
//!
//! **Problem.** Memory fails while it is in use, and a tester that needs the machine for itself is never run. **Idea.** Test what is
//! free, politely, and condemn what fails before a program is given it. **Why this way.** Decisions ([`polite`], [`ledger`])
//! are pure functions of what was seen and of the time; [`Machine`] is the only way to Linux; [`session`] joins the two.
//!
//! Libraries: `displaydoc` and `thiserror` (errors), `humantime` (durations), `serde` (the report).

#![forbid(unsafe_code)]

pub mod control;
pub mod experiment;
pub mod extent;
pub mod findings;
mod known;
pub mod ledger;
mod machine;
mod mismatch;
mod planted;
pub mod polite;
pub mod pool;
mod record;
pub mod report;
mod seen;
pub mod session;
mod unreached;
pub mod watch;

use rampart_march::execute::honesty::NoneBypasses;
use rampart_memory::Bytes;
use rampart_memory::fault::TooManyFaults;

pub use machine::Machine;
pub use polite::SMALLEST_CLAIM;
pub use session::{Progress, Request, Witness};

/// Why a test could not begin.
#[derive(Debug, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// --memory {wanted} is more than the {claimable} that can be tested now: ask for less, or stop programs first
    TooMuchMemory {
        /// What was asked for.
        wanted: Bytes,
        /// What could be claimed.
        claimable: Bytes,
    },
    /// no free memory can be tested beside the reserve that programs need: stop programs first
    NothingFree,
    /// --threads {wanted} is more than the {allowed} CPUs that this process may use: ask for fewer
    TooManyThreads {
        /// What was asked for.
        wanted: usize,
        /// How many there are.
        allowed: usize,
    },
    /// memory cannot be tested here, since reads come from a cache ({0}; 5 % are allowed): try when the machine is idle, or test with memtest86+ before it boots
    NoneBypasses(NoneBypasses),
    /// --method {method} reads a cache here ({seen}; 5 % are allowed): leave --method out
    MethodReadsCache {
        /// As the option has it.
        method: &'static str,
        /// What was measured.
        seen: NoneBypasses,
    },
    /// --inject: {0}
    Inject(#[from] TooManyFaults),
    /// {0}
    Linux(#[from] rampart_linux::Error),
}
