//! All settings of [Rahman16, tab. 1 and 6], in one place, checked once.

use std::time::Duration;

use rampart_memory::{Fidelity, TestConfig, TestLifetime};
use serde::{Deserialize, Serialize};

use super::Error;

/// The controller's settings [Rahman16, tab. 1 and 6].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlSettings {
    /// The vulnerability window and its safety margin δ.
    pub lifetime: TestLifetime,
    /// How often demand is read and blocks are taken: the monitoring timer, *replenish-δ*.
    pub monitoring: Duration,
    /// How often the policy decides: the policy timer, a test epoch.
    pub epoch: Duration,
    /// This many times the demand is tested ahead; at least 1.
    pub alpha: f64,
    /// Demand that grew by this factor between two readings raises the alarm; more than 1.
    pub alarm: f64,
    /// The configuration that an alarm puts in force until the epoch ends, *e_testconfig*; by default the fastest that
    /// the limits allow.
    #[serde(default)]
    pub emergency: Option<TestConfig>,
    /// When this many free frames are tested, no more are tested ahead; by default the rule of each list alone decides.
    /// *There are enough tested pages* in state E [Rahman16, 4.1.5] is such a bound; Rahman gives no number.
    #[serde(default)]
    pub enough: Option<u64>,
    /// The configurations that a policy may choose.
    pub limits: PolicyLimits,
    /// Whether the lists of orders 3 to 8 are not refilled directly, but only by splits of larger blocks [Rahman16,
    /// 5.2.3.3].
    pub skip_middle: bool,
    /// Whether a block goes to a tester on its own node [Rahman16, 5.2.2].
    pub node_local: bool,
}

/// The configurations that a policy may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyLimits {
    /// MIN-FIDELITY.
    pub min_fidelity: Fidelity,
    /// MAX-FIDELITY.
    pub max_fidelity: Fidelity,
    /// The step between the fidelities that a policy tries; 1 in [Rahman16, fig. 30], 4 (8 patterns) in Rahman's
    /// measurements [Rahman16, 5.3.1].
    pub fidelity_step: u32,
    /// MAX-CORES; at least 1.
    pub max_cores: u32,
}

impl ControlSettings {
    /// The values of Rahman's measurements [Rahman16, tab. 1 and 6].
    #[must_use]
    pub fn rahman16() -> Self {
        let lifetime = TestLifetime::new(Duration::from_secs(180), Duration::from_secs(10));
        let fidelity = |number| Fidelity::new(number).expect("1 to 1024");
        Self {
            lifetime: lifetime.expect("δ is shorter"),
            monitoring: Duration::from_millis(25),
            epoch: Duration::from_secs(1),
            alpha: 2.0,
            alarm: 4.0,
            emergency: None,
            enough: None,
            limits: PolicyLimits {
                min_fidelity: fidelity(1),
                max_fidelity: fidelity(32),
                fidelity_step: 1,
                max_cores: 4,
            },
            skip_middle: true,
            node_local: true,
        }
    }

    /// Returns the same settings if they are valid together.
    ///
    /// # Errors
    /// The first setting that is invalid.
    pub fn checked(self) -> Result<Self, Error> {
        let PolicyLimits { min_fidelity, max_fidelity, fidelity_step, max_cores } = self.limits;
        let wrong = if !(self.alpha >= 1.0 && self.alpha.is_finite()) {
            Some(Error::Alpha(self.alpha))
        } else if !(self.alarm > 1.0 && self.alarm.is_finite()) {
            Some(Error::Alarm(self.alarm))
        } else if min_fidelity > max_fidelity {
            Some(Error::Fidelities { min: min_fidelity, max: max_fidelity })
        } else if fidelity_step == 0 {
            Some(Error::FidelityStep)
        } else if max_cores == 0 {
            Some(Error::NoCores)
        } else if !self.limits.allow(self.emergency()) {
            let TestConfig { fidelity, threads } = self.emergency();
            Some(Error::Emergency { fidelity, threads })
        } else if self.monitoring.is_zero() || self.epoch < self.monitoring {
            Some(Error::Timers { monitoring: self.monitoring, epoch: self.epoch })
        } else {
            None
        };
        wrong.map_or(Ok(self), Err)
    }

    /// The configuration that an alarm puts in force.
    #[must_use]
    pub fn emergency(self) -> TestConfig {
        self.emergency.unwrap_or_else(|| fastest(self.limits))
    }
}

impl PolicyLimits {
    /// Whether a policy may choose this configuration.
    fn allow(self, config: TestConfig) -> bool {
        (self.min_fidelity..=self.max_fidelity).contains(&config.fidelity)
            && (1..=self.max_cores).contains(&config.threads)
    }

    /// The fidelities to try, the highest first; never empty, and MIN-FIDELITY is the last.
    pub fn fidelities(self) -> impl Iterator<Item = Fidelity> {
        let (min, max) = (self.min_fidelity.backgrounds(), self.max_fidelity.backgrounds());
        let steps = (max - min) / self.fidelity_step;
        let descending = (0..=steps).map(move |step| max - step * self.fidelity_step);
        let last = (max - steps * self.fidelity_step > min).then_some(min);
        descending.chain(last).map(|number| Fidelity::new(number).expect("between two fidelities"))
    }
}

/// The configuration that tests the most: MIN-FIDELITY on MAX-CORES, for emergencies ([Rahman16, tab. 6],
/// *e_testconfig*).
#[must_use]
pub const fn fastest(limits: PolicyLimits) -> TestConfig {
    TestConfig { fidelity: limits.min_fidelity, threads: limits.max_cores }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_values_make_sense() {
        assert!(ControlSettings::rahman16().checked().is_ok());
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        let good = ControlSettings::rahman16();
        let bad = [
            ControlSettings { alpha: 0.5, ..good },
            ControlSettings { alpha: f64::NAN, ..good },
            ControlSettings { alarm: 1.0, ..good },
            ControlSettings { epoch: Duration::from_millis(1), ..good },
            ControlSettings { emergency: Some(TestConfig { fidelity: Fidelity::MIN, threads: 5 }), ..good },
            ControlSettings { emergency: Some(TestConfig { fidelity: Fidelity::MAX, threads: 1 }), ..good },
            ControlSettings { limits: PolicyLimits { max_cores: 0, ..good.limits }, ..good },
            ControlSettings { limits: PolicyLimits { fidelity_step: 0, ..good.limits }, ..good },
            ControlSettings { limits: PolicyLimits { min_fidelity: Fidelity::MAX, ..good.limits }, ..good },
        ];
        assert!(bad.into_iter().all(|settings| settings.checked().is_err()));
    }

    #[test]
    fn fidelities_descend_and_end_with_the_least() {
        let of = |min, max, step| {
            let fidelity = |number| Fidelity::new(number).unwrap();
            let limits = PolicyLimits {
                min_fidelity: fidelity(min),
                max_fidelity: fidelity(max),
                fidelity_step: step,
                max_cores: 1,
            };
            limits.fidelities().map(Fidelity::backgrounds).collect::<Vec<_>>()
        };
        assert_eq!(of(4, 16, 4), [16, 12, 8, 4]);
        assert_eq!(of(1, 8, 3), [8, 5, 2, 1]);
        assert_eq!(of(5, 5, 1), [5]);
    }

    #[test]
    fn one_fidelity_alone_and_an_epoch_of_one_reading_are_accepted() {
        let good = ControlSettings::rahman16();
        let limits = PolicyLimits { max_fidelity: good.limits.min_fidelity, ..good.limits };
        assert!(ControlSettings { limits, emergency: None, ..good }.checked().is_ok());
        assert!(ControlSettings { epoch: good.monitoring, ..good }.checked().is_ok());
    }
}
