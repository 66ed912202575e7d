//! Frames with a page error that passed a test: when they are tested again, and when they are trusted.
//!
//! **Problem.** A weak cell is right for a while after a write: it loses its value slowly, and not every time (variable
//! retention time; Liu et al., *An Experimental Study of Data Retention Behavior in Modern DRAM Devices*, ISCA 2013). A
//! march test of one page takes less than a tenth of a millisecond, and finds such a cell good. **Idea.** A frame rests
//! between a write and the next read, for both values of each cell and for longer each time. It is trusted once it has
//! passed every test. **Why this way.** The short rests find most bad frames before the program ends; the long ones are
//! as long as those of `rampart test` ([`rampart_march::Plan::with_delayed_reads`]). Only the frame waits for the
//! verdict, and nobody else.
//!
//! The number of waiting frames is bounded. If there are more, the one that has waited longest makes room: it is the
//! best tested, and is judged without the tests that it lacks.

use std::collections::VecDeque;
use std::time::Duration;

use rampart_memory::Timestamp;

/// The rest of a frame before each of its tests. In two rests of the same length the cells hold 1, and then 0.
pub const RESTS: [Duration; 4] =
    [Duration::from_millis(10), Duration::from_millis(10), Duration::from_secs(1), Duration::from_secs(1)];

/// The most waiting frames.
pub const MOST: usize = 16;

/// Frames that wait for their next test.
#[derive(Debug)]
pub struct Probation<T>(VecDeque<Resting<T>>);

/// A resting frame.
#[derive(Debug)]
struct Resting<T> {
    suspect: T,
    /// Tests that it has passed after a rest.
    passed: usize,
    due: Timestamp,
}

impl<T> Default for Probation<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Probation<T> {
    /// Admits a frame that has passed its first test; it rests from now on. Returns the frame that makes room for it,
    /// if one must.
    pub fn admit(&mut self, suspect: T, now: Timestamp) -> Option<T> {
        let crowded_out = if self.0.len() < MOST { None } else { self.0.pop_front() };
        self.rest(suspect, 0, now);
        crowded_out.map(|resting| resting.suspect)
    }

    /// Takes out a frame that has rested for long enough, with the number of tests that it has passed after rests.
    pub fn due(&mut self, now: Timestamp) -> Option<(T, usize)> {
        let place = self.0.iter().position(|resting| resting.due <= now)?;
        self.0.remove(place).map(|resting| (resting.suspect, resting.passed))
    }

    /// Lets a frame rest again, after so many passed tests. Returns it if these were all: it is trusted.
    pub fn passed(&mut self, suspect: T, passed: usize, now: Timestamp) -> Option<T> {
        if passed >= RESTS.len() {
            return Some(suspect);
        }
        self.rest(suspect, passed, now);
        None
    }

    fn rest(&mut self, suspect: T, passed: usize, now: Timestamp) {
        self.0.push_back(Resting { suspect, passed, due: now.after(RESTS[passed]) });
    }
}

/// The value of the cells during a rest, after so many passed tests.
#[must_use]
pub const fn rests_at_one(passed: usize) -> bool {
    passed.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEP: Duration = Duration::from_millis(5);

    /// A cell that falls to a value so long after a write, if it holds the other value.
    #[derive(Clone, Copy, Debug)]
    struct Weak {
        to: bool,
        after: Duration,
    }

    /// When a frame with this cell is found bad; `None`: it is trusted. It is checked at each of these times.
    fn found_after(weak: Option<Weak>, looks: &[Timestamp]) -> Option<Duration> {
        let (mut probation, start) = (Probation::default(), Timestamp::default());
        assert_eq!(probation.admit((), start), None);
        let mut written = start;
        for &now in looks {
            let Some(((), passed)) = probation.due(now) else { continue };
            let holds = rests_at_one(passed);
            if weak.is_some_and(|weak| weak.to != holds && now.since(written) >= weak.after) {
                return Some(now.since(start));
            }
            written = now;
            if probation.passed((), passed + 1, now).is_some() {
                assert!(now.since(start) >= RESTS.iter().sum(), "trusted after {:?}", now.since(start));
                return None;
            }
        }
        panic!("there is no verdict");
    }

    fn every(step: Duration) -> Vec<Timestamp> {
        (1..2000).map(|look| Timestamp::default().after(step * look)).collect()
    }

    #[test]
    fn a_good_frame_is_trusted_once_it_has_passed_all_tests() {
        assert_eq!(found_after(None, &every(STEP)), None);
    }

    #[test]
    fn a_cell_that_falls_within_ten_milliseconds_is_found_after_the_short_rests() {
        for to in [false, true] {
            let found = found_after(Some(Weak { to, after: Duration::from_millis(9) }), &every(STEP));
            assert!(found.is_some_and(|found| found <= Duration::from_millis(20)), "{found:?}");
        }
    }

    #[test]
    fn the_one_that_waited_longest_makes_room() {
        let (mut probation, now) = (Probation::default(), Timestamp::default());
        assert!((0..MOST).all(|frame| probation.admit(frame, now).is_none()));
        assert_eq!([probation.admit(99, now), probation.admit(100, now)], [Some(0), Some(1)]);
        let mut waiting: Vec<_> = std::iter::from_fn(|| probation.due(now.after(RESTS[0]))).collect();
        waiting.sort_unstable();
        assert_eq!(waiting, (2..MOST).chain([99, 100]).map(|frame| (frame, 0)).collect::<Vec<_>>());
    }

    proptest! {
        /// A cell that loses a value within the longest rest is found at any times of checks, whichever value that is.
        #[test]
        fn a_cell_that_loses_a_value_within_a_second_is_never_trusted(
            to: bool,
            after in 0_u64..1_000_000,
            pauses in proptest::collection::vec(1_u64..300_000, 400),
        ) {
            let mut now = Timestamp::default();
            let looks: Vec<_> = pauses.iter().map(|&pause| { now = now.after(Duration::from_micros(pause)); now }).collect();
            prop_assume!(now.since(Timestamp::default()) > Duration::from_secs(10));
            let weak = Weak { to, after: Duration::from_micros(after) };
            prop_assert_ne!(found_after(Some(weak), &looks), None);
        }

        /// No frame is lost: each admitted frame waits, made room, or was taken out.
        #[test]
        fn every_frame_has_one_place(steps in proptest::collection::vec((0_u8..2, 0_u64..400_000), 1..300)) {
            let (mut probation, mut now) = (Probation::default(), Timestamp::default());
            let (mut admitted, mut gone) = (0, 0);
            for (what, pause) in steps {
                now = now.after(Duration::from_micros(pause));
                if what == 0 {
                    admitted += 1;
                    gone += usize::from(probation.admit(admitted, now).is_some());
                } else if let Some((frame, passed)) = probation.due(now) {
                    gone += usize::from(probation.passed(frame, passed + 1, now).is_some());
                }
                prop_assert!(probation.0.len() <= MOST);
                prop_assert_eq!(probation.0.len() + gone, admitted);
            }
        }
    }
}
