//! The test controller: what is tested next, at what fidelity, by how many threads [Rahman16, 5.2].
//!
//! **Problem.** Programs take frames at changing rates; testing must stay ahead of them, and take no more of the
//! machine than that needs. **Idea.** Sense, decide, configure: the [`monitor`] reads counters, a [`replenish`] rule
//! decides how many blocks of each list to test, a [`policy`] decides fidelity and threads, the [`dispatch`]er hands
//! the blocks to testers, and the [guarantee timer](Guarantee) renews frames that are about to expire. **Why this
//! way.** Each part is a pure function of observations and of the time, so a year runs in a second from one seed, and
//! the same code runs on a machine. [`Diagnostic`] joins them over any [`FrameSource`](rampart_memory::FrameSource).

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

/// Why settings are inconsistent.
#[derive(Clone, Debug, PartialEq, displaydoc::Display, thiserror::Error)]
pub enum Error {
    /// alpha is {0}: give a factor of 1 or more
    Alpha(f64),
    /// alarm is {0}: give a factor above 1
    Alarm(f64),
    /// min-fidelity {min} is above max-fidelity {max}: exchange them
    Fidelities {
        /// The lowest.
        min: Fidelity,
        /// The highest.
        max: Fidelity,
    },
    /// fidelity-step is 0: give 1 or more
    FidelityStep,
    /// max-cores is 0: give 1 or more
    NoCores,
    /// emergency-fidelity {fidelity} or emergency-cores {threads} is more or less than the limits allow: change it or
    /// them
    Emergency {
        /// The fidelity.
        fidelity: Fidelity,
        /// The number of threads.
        threads: u32,
    },
    /// the epoch {epoch:?} is shorter than the monitoring period {monitoring:?}, or that is 0: lengthen the one or
    /// shorten the other
    Timers {
        /// The monitoring timer.
        monitoring: Duration,
        /// The policy timer.
        epoch: Duration,
    },
}
