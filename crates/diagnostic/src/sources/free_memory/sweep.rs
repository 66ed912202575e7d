//! When a sweep of free memory begins, and which frames it tests.
//!
//! **Problem.** The kernel alone decides which free frames it hands out; to reach all of them, the pool must hold all
//! at once, and programs cannot use them meanwhile. **Idea.** *Sweep*: claim step after step, test the steps with old
//! tests, hold the others. When no more memory can be claimed, give all back, and rest until just enough time remains
//! for the next sweep to reach the oldest frame before it comes due. **Why this way.** A sweep that is as fast as
//! possible disturbs programs; one that is as slow as possible holds memory for a long time. A sweep aims at half of
//! the time that its bound allows, divided by α (see [`Sweep::rate`]).
//!
//! With window = lifetime - δ: a frame is *due* in a sweep if its test is older than a quarter of the window when the
//! sweep begins, so that no frame is tested again too soon. All frames that a sweep saw, tested or not, determine when
//! the next one begins.

use std::time::Duration;

use rampart_memory::{TestLifetime, Tested, Timestamp};

/// The state of the sweeps: resting or sweeping, and the expiry of the frames seen.
#[derive(Clone, Debug)]
pub struct Sweep {
    bound: TestLifetime,
    phase: Phase,
    /// When the first frame that the last sweep saw comes due; `None` before the end of the first sweep.
    deadline: Option<Timestamp>,
    /// The time to reserve for the next sweep.
    takes: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Resting { until: Timestamp },
    Sweeping { began: Timestamp, earliest: Timestamp, missed: bool },
}

impl Sweep {
    /// Resting until `now`.
    #[must_use]
    pub const fn new(bound: TestLifetime, now: Timestamp) -> Self {
        Self { bound, phase: Phase::Resting { until: now }, deadline: None, takes: Duration::ZERO }
    }

    /// How long a frame may go without a test: lifetime - δ.
    #[must_use]
    pub fn window(bound: TestLifetime) -> Duration {
        bound.lifetime() - bound.delta()
    }

    /// Whether a sweep is under way.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Sweeping { .. })
    }

    /// Changes the bound, and ends a rest.
    pub fn rebound(&mut self, bound: TestLifetime, now: Timestamp) {
        self.bound = bound;
        self.hurry(now);
    }

    /// Ends a rest.
    pub const fn hurry(&mut self, now: Timestamp) {
        if let Phase::Resting { until } = &mut self.phase {
            *until = now;
        }
    }

    /// Begins a sweep if one is due; returns whether it did.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let Phase::Resting { until } = self.phase else { return false };
        if now < until {
            return false;
        }
        let earliest = now.after(Self::window(self.bound));
        self.phase = Phase::Sweeping { began: now, earliest, missed: false };
        true
    }

    /// Registers a frame, and returns whether this sweep must test it.
    pub fn sees(&mut self, tested: Tested, preferred: bool) -> bool {
        let Phase::Sweeping { began, earliest, .. } = &mut self.phase else { return false };
        let expiry = self.bound.expiry(tested);
        let old = expiry <= began.after(3 * Self::window(self.bound) / 4);
        let due = old || (preferred && tested < Tested::at(*began));
        if !due {
            *earliest = expiry.min(*earliest);
        }
        due
    }

    /// Records that frames that were due were given back untested.
    pub const fn miss(&mut self) {
        if let Phase::Sweeping { missed, .. } = &mut self.phase {
            *missed = true;
        }
    }

    /// Ends the sweep, when all reachable frames are tested. Returns how long it took.
    ///
    /// The next sweep begins 1.25 times this duration before the first frame comes due; soon, if frames were missed.
    pub fn end(&mut self, now: Timestamp) -> Option<Duration> {
        let Phase::Sweeping { began, earliest, missed } = self.phase else { return None };
        let window = Self::window(self.bound);
        let took = now.since(began);
        self.takes = (took * 5 / 4).min(window / 2);
        self.deadline = Some(earliest);
        let soon = now.after(window / 16);
        let in_time = Timestamp::from_micros(earliest.micros().saturating_sub(micros(self.takes)));
        self.phase = Phase::Resting { until: if missed { soon } else { soon.max(in_time) } };
        Some(took)
    }

    /// Whether there are frames without a valid test: they came due before they were tested, or never were tested.
    #[must_use]
    pub fn is_late(&self, now: Timestamp) -> bool {
        self.deadline.is_none_or(|deadline| now >= deadline)
    }

    /// Whether frames came due before they were tested; in the first sweep, whether it takes too long.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        match (self.deadline, self.phase) {
            (Some(deadline), _) => now >= deadline,
            (None, Phase::Sweeping { earliest, .. }) => now >= earliest,
            (None, Phase::Resting { .. }) => false,
        }
    }

    /// How many of `frames` a sweep should test per second, before α: all of them in half of the window. With Rahman's
    /// α of 2, in a quarter.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, frames: u64) -> f64 {
        2.0 * frames as f64 / Self::window(self.bound).as_secs_f64()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn sweep() -> Sweep {
        Sweep::new(TestLifetime::new(Duration::from_secs(1010), Duration::from_secs(10)).unwrap(), at(5_000))
    }

    #[test]
    fn the_next_sweep_has_time_to_reach_the_oldest_frame() {
        let mut sweep = sweep();
        assert!(sweep.begin(at(5_000)));
        assert!(sweep.sees(Tested::NEVER, false));
        assert_eq!(sweep.end(at(5_080)), Some(Duration::from_secs(80)));
        assert!(!sweep.begin(at(5_899)));
        assert!(sweep.begin(at(5_900)), "1000 s after the first frame, less 1.25 times 80 s");
    }

    #[test]
    fn a_rest_ends_when_there_is_memory_that_no_sweep_has_seen() {
        let mut sweep = sweep();
        sweep.begin(at(5_000));
        sweep.sees(Tested::NEVER, false);
        sweep.end(at(5_080));
        sweep.hurry(at(5_100));
        assert!(!sweep.begin(at(5_099)) && sweep.begin(at(5_100)));
    }

    #[test]
    fn what_was_tested_of_late_is_left_alone_and_bounds_the_rest() {
        let mut sweep = sweep();
        sweep.begin(at(5_000));
        assert!(!sweep.sees(Tested::at(at(4_800)), false));
        assert!(sweep.sees(Tested::at(at(4_750)), false), "older than a quarter of 1000 s");
        assert!(sweep.sees(Tested::at(at(4_999)), true), "preferred");
        assert!(!sweep.sees(Tested::at(at(5_001)), true), "and tested in this sweep");
        sweep.end(at(5_080));
        assert!(!sweep.begin(at(5_699)));
        assert!(sweep.begin(at(5_700)), "the frame of 4800 s comes due at 5800 s");
    }

    #[test]
    fn a_first_sweep_is_late_from_the_start_and_overdue_when_it_takes_too_long() {
        let mut sweep = sweep();
        assert!(!sweep.is_overdue(at(9_999)), "none is under way");
        sweep.begin(at(5_000));
        assert!(sweep.is_late(at(5_000)) && !sweep.is_overdue(at(5_999)));
        assert!(sweep.is_overdue(at(6_000)));
        sweep.end(at(6_000));
        sweep.begin(at(6_100));
        assert!(sweep.is_late(at(6_100)) && sweep.is_overdue(at(6_100)), "the first frame came due at 6000 s");
    }

    #[test]
    fn what_was_missed_is_tried_again_soon_and_never_without_rest() {
        let mut sweep = sweep();
        sweep.begin(at(5_000));
        sweep.miss();
        sweep.end(at(5_001));
        assert!(!sweep.begin(at(5_063)));
        assert!(sweep.begin(at(5_064)));
        sweep.end(at(9_000));
        assert!(!sweep.begin(at(9_001)), "a sweep that takes longer than the lifetime still rests");
    }
}
