//! The stretches of one node: those that are to be looked at now, by when their tests expire, and those that wait.
//!
//! **Problem.** Tests should be repeated in time, with as little haste as possible. **Idea.** Earliest deadline first.
//! For each deadline, a rate is needed to test by then all that expires by then; the highest of these is the required
//! rate. **Why this way.** Earliest deadline first meets all deadlines if any order does (Liu and Layland, JACM 20,
//! 1973), and the required rate is the lowest at which it does.

use std::collections::BTreeSet;

use rampart_memory::Timestamp;

use super::stretch::Stretch;

/// Stretches by their place in a list that the caller keeps.
#[derive(Clone, Debug, Default)]
pub struct StretchQueue {
    waiting: BTreeSet<(Timestamp, usize)>,
    ready: BTreeSet<(Timestamp, usize)>,
}

impl StretchQueue {
    /// Adds a stretch that is in nobody's hands.
    pub fn add(&mut self, place: usize, stretch: &Stretch) {
        self.waiting.insert((stretch.look_at(), place));
    }

    /// Takes the stretch that is to be looked at first, if one is to be now.
    pub fn take(&mut self, stretches: &[Stretch], now: Timestamp) -> Option<usize> {
        self.wake(stretches, now);
        self.ready.pop_first().map(|(_, place)| place)
    }

    /// Takes all stretches out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a stretch is to be looked at now.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a stretch in it has passed its deadline.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.ready.first().is_some_and(|(deadline, _)| *deadline <= now)
    }

    /// The frames per second that must be tested, so that no deadline is missed; a deadline that is less than a second
    /// ahead, or was missed, counts as a second ahead.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&mut self, stretches: &[Stretch], now: Timestamp) -> f64 {
        self.wake(stretches, now);
        let (mut frames, mut rate) = (0, 0.0_f64);
        for (deadline, place) in &self.ready {
            frames += stretches[*place].reachable();
            rate = rate.max(frames as f64 / deadline.since(now).as_secs_f64().max(1.0));
        }
        rate
    }

    fn wake(&mut self, stretches: &[Stretch], now: Timestamp) {
        while let Some(&(look_at, place)) = self.waiting.first()
            && look_at <= now
        {
            self.waiting.pop_first();
            self.ready.insert((stretches[place].deadline(), place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use proptest::prelude::*;
    use rampart_memory::{Frame, FrameRange, Node, TestLifetime};

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    /// A stretch of so many frames whose deadline is at that second.
    fn stretch(frames: u64, deadline: u64) -> Stretch {
        let bound = TestLifetime::new(Duration::from_secs(2 * deadline + 1), Duration::from_secs(1)).unwrap();
        Stretch::new(FrameRange::new(Frame::new(0).unwrap(), frames).unwrap(), Node(0), bound, at(0))
    }

    fn queue(stretches: &[Stretch]) -> StretchQueue {
        let mut queue = StretchQueue::default();
        stretches.iter().enumerate().for_each(|(place, stretch)| queue.add(place, stretch));
        queue
    }

    #[test]
    fn the_earliest_deadline_is_first_and_sets_the_rate() {
        let stretches = [stretch(1000, 100), stretch(900, 10), stretch(100, 20)];
        let mut queue = queue(&stretches);
        assert!((queue.rate(&stretches, at(0)) - 90.0).abs() < 1e-9);
        assert!(!queue.is_overdue(at(9)) && queue.is_overdue(at(10)));
        let order: Vec<_> = std::iter::from_fn(|| queue.take(&stretches, at(1))).collect();
        assert_eq!(order, [1, 2, 0]);
        assert!(queue.rate(&stretches, at(1)) < 1e-9);
    }

    proptest! {
        #[test]
        fn at_that_rate_each_deadline_is_met_and_at_a_lower_one_it_is_not(
            sizes in proptest::collection::vec((1_u64..4096, 2_u64..1000), 1..20),
        ) {
            let stretches: Vec<_> = sizes.iter().map(|&(frames, deadline)| stretch(frames, deadline)).collect();
            let mut queue = queue(&stretches);
            let rate = queue.rate(&stretches, at(0));
            let (mut frames, mut tightest) = (0, 0.0_f64);
            while let Some(place) = queue.take(&stretches, at(0)) {
                frames += sizes[place].0;
                tightest = tightest.max(frames as f64 / rate / sizes[place].1 as f64);
            }
            prop_assert!((tightest - 1.0).abs() < 1e-9, "{tightest} of the time until a deadline is needed");
        }
    }
}
