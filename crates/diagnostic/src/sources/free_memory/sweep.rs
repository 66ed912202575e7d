//! Sweeps: when all free memory is visited, and which of its frames are tested then.
//!
//! **Problem.** The kernel chooses the free frames that it hands out; so reaching all of them requires holding all at
//! once, and held memory is lost to programs. **Idea.** *Sweep*: claim step after step, test those with frames whose
//! test grows old, hold the others; when no more can be had, give all back, and rest until the oldest of the seen
//! frames would come due before the next sweep could reach it. **Why this way.** A sweep at full speed disturbs
//! programs; a very slow one holds memory for ever. A sweep aims at half of the time that its bound allows, shared by α
//! (see [`Sweep::rate`]).
//!
//! With window = lifetime - δ: a frame is *due* in a sweep if its test is older than a quarter of the window when the
//! sweep begins, so none is tested twice for nothing. The untested and the tested frames of a sweep bound the beginning
//! of the next.

use std::time::Duration;

use rampart_memory::{TestLifetime, Tested, Timestamp};

/// Resting or sweeping, and the observations of the sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    bound: TestLifetime,
    phase: Phase,
    /// The time when the first frame of the last sweep comes due; `None` before the first has ended.
    deadline: Option<Timestamp>,
    /// The duration of a sweep.
    takes: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Resting { until: Timestamp },
    Sweeping { began: Timestamp, earliest: Timestamp, missed: bool },
}

impl Sweep {
    /// At rest until `now`.
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

    /// Uses another bound from now on. A rest that is too long for it ends.
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

    /// Begins a sweep if it is time for one; returns whether it did.
    pub fn begin(&mut self, now: Timestamp) -> bool {
        let Phase::Resting { until } = self.phase else { return false };
        if now < until {
            return false;
        }
        let earliest = now.after(Self::window(self.bound));
        self.phase = Phase::Sweeping { began: now, earliest, missed: false };
        true
    }

    /// Records a frame, and returns whether it must be tested in this sweep.
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

    /// Due frames are given back untested.
    pub const fn miss(&mut self) {
        if let Phase::Sweeping { missed, .. } = &mut self.phase {
            *missed = true;
        }
    }

    /// Everything within reach is tested. Returns the duration.
    ///
    /// The next sweep begins a sweep's time, and a quarter of it, before the first frame comes due; soon, if some were
    /// missed.
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

    /// Whether there are frames without a good test: they came due before they were tested, or never were tested.
    #[must_use]
    pub fn is_late(&self, now: Timestamp) -> bool {
        self.deadline.is_none_or(|deadline| now >= deadline)
    }

    /// Whether frames came due before they were tested; in the first sweep, whether it takes longer than allowed.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        match (self.deadline, self.phase) {
            (Some(deadline), _) => now >= deadline,
            (None, Phase::Sweeping { earliest, .. }) => now >= earliest,
            (None, Phase::Resting { .. }) => false,
        }
    }

    /// How many of `frames` a sweep should test per second, before α: all of them in half of the window. With the α of
    /// 2 of [Rahman16], in a quarter.
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
