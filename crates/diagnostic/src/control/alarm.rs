//! The alarm: demand rose too fast to wait for the end of the epoch ([Rahman16, 5.2.4.3], *emergency override*).

use std::time::Duration;

/// Watches demand from one reading to the next.
///
/// Rahman raises the alarm when demand has grown fourfold since the last reading. One frame after none is such a growth
/// too, so here demand must also exceed the test rate of the configuration in force.
#[derive(Clone, Debug)]
pub struct Alarm {
    factor: f64,
    before: u64,
}

impl Alarm {
    /// Makes an alarm that is raised when demand grows by `factor`, which is more than 1.
    #[must_use]
    pub const fn new(factor: f64) -> Self {
        Self { factor, before: 0 }
    }

    /// Whether a demand of `frames` in `period` raises the alarm, if `rate` frames per second can be tested.
    #[expect(clippy::cast_precision_loss, reason = "counts of one reading are far below 2^52")]
    pub fn raised(&mut self, frames: u64, period: Duration, rate: f64) -> bool {
        let grown = frames as f64 >= self.factor * self.before as f64;
        self.before = frames;
        grown && frames as f64 > rate * period.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(25);

    #[test]
    fn fourfold_growth_beyond_what_can_be_tested_raises_it() {
        let mut alarm = Alarm::new(4.0);
        assert!(!alarm.raised(100, PERIOD, 10_000.0), "250 frames can be tested in 25 ms");
        assert!(alarm.raised(400, PERIOD, 10_000.0));
        assert!(!alarm.raised(1_500, PERIOD, 10_000.0), "less than four times as much");
        assert!(!alarm.raised(0, PERIOD, 10_000.0));
        assert!(!alarm.raised(200, PERIOD, 10_000.0), "a growth from nothing that can be tested");
    }

    #[test]
    fn demand_that_is_just_tested_raises_no_alarm() {
        assert!(!Alarm::new(4.0).raised(250, PERIOD, 10_000.0));
        assert!(Alarm::new(4.0).raised(251, PERIOD, 10_000.0));
    }
}
