//! The test controller: decides which frames are tested next, at which fidelity, by how many threads [Rahman16, 5.2].
//!
//! **Problem.** Programs take frames faster or slower from one moment to the next; testing must stay ahead of them, and
//! take no more of the machine than necessary. **Idea.** Sense, decide, configure: the [`monitor`] reads counters, a
//! [`replenish`] rule decides how many blocks of each list to test, a [`policy`] chooses fidelity and threads, the
//! [`dispatch`]er hands the blocks to testers, and the [guarantee timer](Guarantee) re-places pages whose tests are
//! about to expire. **Why this way.** Each is a pure function of its inputs and the time, so a year runs in a second
//! from one seed, and the same code runs on a machine. [`Diagnostic`] joins them over any
//! [`FrameSource`](rampart_memory::FrameSource).

mod alarm;
mod diagnostic;
pub mod dispatch;
mod guarantee;
pub mod monitor;
pub mod policy;
pub mod replenish;
mod settings;
#[cfg(test)]
pub(crate) mod suite;
#[cfg(test)]
mod suite_over_sim;

use std::time::Duration;

use rampart_memory::Fidelity;

pub use alarm::Alarm;
pub use diagnostic::{Counts, Diagnostic, Work};
pub use guarantee::Guarantee;
pub use policy::{Policy, PolicyName};
pub use settings::{ControlSettings, PolicyLimits};

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// alpha is {0}: give a factor of 1 or more
    Alpha(f64),
    /// alarm is {0}: give a factor above 1
    Alarm(f64),
    /// min-fidelity {min} is above max-fidelity {max}: exchange them
    Fidelities {
        /// The least allowed.
        min: Fidelity,
        /// The most allowed.
        max: Fidelity,
    },
    /// fidelity-step is 0: give 1 or more
    FidelityStep,
    /// max-cores is 0: give 1 or more
    NoCores,
    /// emergency-fidelity {fidelity} or emergency-cores {threads} is outside the limits: change it or the
    /// limits
    Emergency {
        /// The emergency fidelity.
        fidelity: Fidelity,
        /// The emergency threads.
        threads: u32,
    },
    /// the epoch {epoch:?} is shorter than the monitoring period {monitoring:?}, or the period is 0: lengthen the epoch
    /// or change the period
    Timers {
        /// The monitoring timer.
        monitoring: Duration,
        /// The policy timer.
        epoch: Duration,
    },
}
