//! When lines fail while a program runs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::error::Error;

/// How many lines fail in a second, on average: above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FailureRate(f64);

/// Failures at random times: how long after the one before, and a number that chooses the line. It never ends.
#[derive(Clone, Debug)]
pub struct FailureTimes {
    rate: FailureRate,
    draws: ChaCha8Rng,
}

impl FailureRate {
    /// So many; `None` if that is not above 0.
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        (per_second.is_finite() && per_second > 0.0).then_some(Self(per_second))
    }

    /// Failures that come at this rate, independent of each other.
    #[must_use]
    pub fn times(self, seed: u64) -> FailureTimes {
        FailureTimes { rate: self, draws: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl FromStr for FailureRate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().ok().and_then(Self::new).ok_or(Error::NoRate)
    }
}

impl fmt::Display for FailureRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Iterator for FailureTimes {
    type Item = (Duration, u64);

    fn next(&mut self) -> Option<(Duration, u64)> {
        let uniform: f64 = self.draws.random();
        // Never more than a day: a rate may be next to 0.
        let seconds = (-(1.0 - uniform).ln() / self.rate.0).min(86_400.0);
        Some((Duration::from_secs_f64(seconds), self.draws.random()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_fail_as_are_asked_for_and_each_time_is_another() {
        let times = || FailureRate::new(50.0).unwrap().times(3).take(10_000);
        let all: Duration = times().map(|(pause, _)| pause).sum();
        assert!((190.0..210.0).contains(&all.as_secs_f64()), "{all:?}");
        // Of exponential times, as many are above the mean as e^-1.
        let late = times().filter(|(pause, _)| pause.as_secs_f64() > 0.02).count();
        assert!((3500..3860).contains(&late), "{late}");
        assert!(times().eq(times()), "the same from one seed");
        assert!([0.0, -1.0, f64::NAN, f64::INFINITY].map(|rate| FailureRate::new(rate).is_none()).iter().all(|no| *no));
        assert_eq!(
            FailureRate::new(f64::MIN_POSITIVE).unwrap().times(1).next().unwrap().0,
            Duration::from_secs(86_400)
        );
    }

    #[test]
    fn a_rate_is_read_as_it_is_written_or_refused() {
        for text in ["20", "0.5", "0.1"] {
            assert_eq!(text.parse::<FailureRate>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "nan", "inf", "", "20/s"] {
            assert_eq!(text.parse::<FailureRate>().unwrap_err().to_string(), "give a number above 0", "{text}");
        }
    }
}
