//! Decides when to leave the CPU to others for a moment.
//!
//! **Problem.** Linux takes a real-time program that never rests off its CPU for 50 ms of each second, which belong to
//! all other programs (`sched_rt_runtime_us`, sched(7)). Meanwhile no fault acts: a stuck cell passes a test of its
//! frame. **Idea.** The program rests for a tenth of a millisecond after each millisecond of polling, which leaves
//! others twice their share.

use std::time::Duration;

/// The time since the last rest.
#[derive(Debug, Default)]
pub struct Rests {
    since: Duration,
}

impl Rests {
    /// The length of a rest.
    pub const LENGTH: Duration = Duration::from_micros(100);

    /// The polling time between two rests.
    const APART: Duration = Duration::from_millis(1);

    /// Whether a rest begins now.
    pub fn is_due(&mut self, now: Duration) -> bool {
        let is_due = now.saturating_sub(self.since) >= Self::APART;
        if is_due {
            self.since = now + Self::LENGTH;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_get_more_than_the_twentieth_that_linux_would_take_at_once() {
        let (mut rests, mut now, mut rested) = (Rests::default(), Duration::ZERO, Duration::ZERO);
        while now < Duration::from_secs(1) {
            if rests.is_due(now) {
                now += Rests::LENGTH;
                rested += Rests::LENGTH;
            }
            now += Duration::from_micros(1);
        }
        assert!(rested > now / 20 && rested < now / 10, "{rested:?} of {now:?}");
    }

    #[test]
    fn after_a_long_gap_one_rest_is_due_and_no_more() {
        let mut rests = Rests::default();
        assert!(rests.is_due(Duration::from_secs(60)));
        assert!(!rests.is_due(Duration::from_secs(60) + Rests::LENGTH));
    }
}
