//! When lines fail while a program runs.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Failures at random times: how long after the one before, and a number that chooses the line. It never ends.
#[derive(Clone, Debug)]
pub struct FailureTimes {
    per_second: f64,
    draws: ChaCha8Rng,
}

impl FailureTimes {
    /// So many failures per second on average, independent of each other; `None` if that is not above 0.
    #[must_use]
    pub fn new(per_second: f64, seed: u64) -> Option<Self> {
        let is_rate = per_second.is_finite() && per_second > 0.0;
        is_rate.then(|| Self { per_second, draws: ChaCha8Rng::seed_from_u64(seed) })
    }
}

impl Iterator for FailureTimes {
    type Item = (Duration, u64);

    fn next(&mut self) -> Option<(Duration, u64)> {
        let uniform: f64 = self.draws.random();
        // Never more than a day: a rate may be next to 0.
        let seconds = (-(1.0 - uniform).ln() / self.per_second).min(86_400.0);
        Some((Duration::from_secs_f64(seconds), self.draws.random()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_fail_as_are_asked_for_and_each_time_is_another() {
        let times = || FailureTimes::new(50.0, 3).unwrap().take(10_000);
        let all: Duration = times().map(|(pause, _)| pause).sum();
        assert!((190.0..210.0).contains(&all.as_secs_f64()), "{all:?}");
        // Of exponential times, as many are above the mean as e^-1.
        let late = times().filter(|(pause, _)| pause.as_secs_f64() > 0.02).count();
        assert!((3500..3860).contains(&late), "{late}");
        assert!(times().eq(times()), "the same from one seed");
        assert!(
            [0.0, -1.0, f64::NAN, f64::INFINITY].map(|rate| FailureTimes::new(rate, 1).is_none()).iter().all(|no| *no)
        );
        assert_eq!(FailureTimes::new(f64::MIN_POSITIVE, 1).unwrap().next().unwrap().0, Duration::from_secs(86_400));
    }
}
