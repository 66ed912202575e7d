//! The policies: fidelity and threads until the next decision [Rahman16, 5.2.4.3 to 5.2.4.5].
//!
//! **Problem.** Thorough tests by few threads are slow, fast ones are shallow or take cores. **Idea.** Each policy is a
//! pure function from the requested test rate to a [`TestConfig`] within the administrator's limits. **Why this way.**
//! A policy knows nothing of allocators, lists or threads, so a new one is one small file.

mod adaptive;
mod error_triggered;
mod fidelity_preserving;
mod fixed;

use std::str::FromStr;

use rampart_memory::{Fidelity, FrameRange, TestConfig};
use serde::{Deserialize, Serialize};

pub use adaptive::Adaptive;
pub use error_triggered::ErrorTriggered;
pub use fidelity_preserving::FidelityPreserving;
pub use fixed::Fixed;

use super::settings::PolicyLimits;
pub use super::settings::fastest;

/// The input of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
    /// Frames per second to test: demand, scaled by α.
    pub request: f64,
    /// The test rate of one thread, by fidelity.
    pub bandwidth: Bandwidth,
    /// The permitted configurations.
    pub limits: PolicyLimits,
    /// Frames around which the hardware corrected more errors than the threshold allows.
    pub erring: &'a [FrameRange],
}

/// The test rate of one thread (CALC-BANDWIDTH, [Rahman16, fig. 30]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Frames per second at fidelity 1: MAX-TEST-BW, measured on the machine.
    pub at_fidelity_1: f64,
}

impl Bandwidth {
    /// Frames per second that one thread tests: the time grows with the number of patterns.
    #[must_use]
    pub fn of(self, fidelity: Fidelity) -> f64 {
        self.at_fidelity_1 / f64::from(fidelity.backgrounds())
    }

    /// Frames per second that a configuration tests.
    #[must_use]
    pub fn of_config(self, config: TestConfig) -> f64 {
        f64::from(config.threads) * self.of(config.fidelity)
    }
}

/// Decides fidelity and threads.
pub trait Policy {
    /// The configuration for the next epoch.
    fn decide(&mut self, seen: &PolicyInput<'_>) -> TestConfig;
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// No test ahead of allocation [Rahman16, 3.2].
    OnDemand,
    /// COMeT: one thread, the lowest fidelity, a rate for each list [Rahman16, 4.1.5].
    Comet,
    /// The administrator's configuration: MAX-CORES and MIN-FIDELITY.
    Fixed,
    /// The fewest threads, then the highest fidelity, that keep up [Rahman16, fig. 30].
    Adaptive,
    /// The highest fidelity, then the fewest threads, that keep up [Rahman16, 6.2].
    FidelityPreserving,
    /// Adaptive, but at the highest fidelity while the hardware corrects errors [Rahman16, 6.2].
    ErrorTriggered,
}

impl PolicyName {
    /// All policies, the baselines first.
    pub const ALL: [Self; 6] =
        [Self::OnDemand, Self::Comet, Self::Fixed, Self::Adaptive, Self::FidelityPreserving, Self::ErrorTriggered];

    /// The name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Comet => "comet",
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
            Self::FidelityPreserving => "fidelity-preserving",
            Self::ErrorTriggered => "error-triggered",
        }
    }

    /// Makes the policy of this name.
    #[must_use]
    pub fn policy(self, limits: PolicyLimits) -> Box<dyn Policy + Send> {
        let fidelity = limits.min_fidelity;
        match self {
            Self::OnDemand => Box::new(Fixed(TestConfig { fidelity, threads: 0 })),
            Self::Comet => Box::new(Fixed(TestConfig { fidelity, threads: 1 })),
            Self::Fixed => Box::new(Fixed(TestConfig { fidelity, threads: limits.max_cores })),
            Self::Adaptive => Box::new(Adaptive),
            Self::FidelityPreserving => Box::new(FidelityPreserving),
            Self::ErrorTriggered => Box::new(ErrorTriggered(Adaptive)),
        }
    }
}

/// {0:?} is not a policy: give on-demand, comet, fixed, adaptive, fidelity-preserving or error-triggered
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ParsePolicyError(String);

impl FromStr for PolicyName {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|policy| policy.as_str() == text);
        named.ok_or_else(|| ParsePolicyError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn limits(min: u32, spread: u32, step: u32, max_cores: u32) -> PolicyLimits {
        let fidelity = |number| Fidelity::new(number).unwrap();
        PolicyLimits {
            min_fidelity: fidelity(min),
            max_fidelity: fidelity(min + spread),
            fidelity_step: step,
            max_cores,
        }
    }

    /// [Rahman16, fig. 30], line by line.
    fn figure_30(request: f64, bandwidth: f64, limits: PolicyLimits) -> (u32, u32) {
        let (min, max) = (limits.min_fidelity.backgrounds(), limits.max_fidelity.backgrounds());
        let (mut threads, mut fidelity) = (1, i64::from(max));
        while request > f64::from(threads) * (bandwidth / fidelity as f64) {
            fidelity -= 1;
            if fidelity < i64::from(min) {
                threads += 1;
                if threads > limits.max_cores {
                    return (min, limits.max_cores);
                }
                fidelity = i64::from(max);
            }
        }
        (u32::try_from(fidelity).unwrap(), threads)
    }

    fn decide(policy: &mut dyn Policy, request: f64, bandwidth: f64, limits: PolicyLimits) -> TestConfig {
        let bandwidth = Bandwidth { at_fidelity_1: bandwidth };
        policy.decide(&PolicyInput { request, bandwidth, limits, erring: &[] })
    }

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for name in PolicyName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
        }
        assert!("adaptiv".parse::<PolicyName>().is_err());
    }

    proptest! {
        #[test]
        fn adaptive_is_figure_30(
            request in 0.0_f64..1e6, bandwidth in 1.0_f64..1e6, min in 1_u32..8, spread in 0_u32..32, cores in 1_u32..8,
        ) {
            let limits = limits(min, spread, 1, cores);
            let chosen = decide(&mut Adaptive, request, bandwidth, limits);
            prop_assert_eq!((chosen.fidelity.backgrounds(), chosen.threads), figure_30(request, bandwidth, limits));
        }

        /// A policy's choice keeps up with the request, or no permitted configuration does.
        #[test]
        fn what_is_chosen_keeps_up_and_obeys_the_limits(
            request in 0.0_f64..1e6, bandwidth in 1.0_f64..1e6, min in 1_u32..8, spread in 0_u32..32,
            step in 1_u32..8, cores in 1_u32..8, preserving in any::<bool>(),
        ) {
            let limits = limits(min, spread, step, cores);
            let mut policy: Box<dyn Policy> = if preserving { Box::new(FidelityPreserving) } else { Box::new(Adaptive) };
            let chosen = decide(&mut *policy, request, bandwidth, limits);
            let rate = |config| Bandwidth { at_fidelity_1: bandwidth }.of_config(config);
            prop_assert!(rate(chosen) >= request || chosen == fastest(limits));
            prop_assert!((limits.min_fidelity..=limits.max_fidelity).contains(&chosen.fidelity));
            prop_assert!((1..=cores).contains(&chosen.threads));
        }

        /// Core-preserving takes no more threads than fidelity-preserving; fidelity-preserving has no lower fidelity.
        #[test]
        fn each_preserves_what_it_says(request in 0.0_f64..1e6, bandwidth in 1.0_f64..1e6, cores in 1_u32..8) {
            let limits = limits(1, 31, 1, cores);
            let cores = decide(&mut Adaptive, request, bandwidth, limits);
            let fidelity = decide(&mut FidelityPreserving, request, bandwidth, limits);
            prop_assert!(cores.threads <= fidelity.threads);
            prop_assert!(cores.fidelity <= fidelity.fidelity);
        }
    }
}
