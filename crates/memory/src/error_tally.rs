//! Counts recent errors by place, to name the frames and regions that should be tested first.
//!
//! **Problem.** One corrected error means little: a particle hit a chip. Many in one place within a day mean that the
//! place is about to fail. **Idea.** Count errors by frame and by region of 2 MiB in a sliding window, and name places
//! above a threshold: an error-triggered policy tests these first and at the highest fidelity [Rahman16, 6.2]. **Why
//! regions.** A bad row or column of a chip shows as single errors in many neighbouring frames.
//!
//! Times are rounded to 1/256 of the window, so that a frame that reports errors for ever takes bounded memory.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{BlockOrder, Frame, FrameBlock, MemoryError, Timestamp};

/// Steps in a window.
const STEPS: u64 = 256;

/// Order of a region: 512 frames, 2 MiB.
const REGION: BlockOrder = BlockOrder::new(9).expect("at most 10");

/// Errors of a sliding window, counted by frame and region, whatever their severity.
///
/// An error counts for at least the window, and for at most two steps of 1/256 (no less than 1 µs) longer. If the clock
/// is set back, earlier errors count for that much longer.
#[derive(Clone, Debug)]
pub struct ErrorTally {
    /// Microseconds; at least 1.
    step: u64,
    /// The amounts to subtract from the counts, and when: by step since the epoch.
    log: BTreeMap<(u64, Option<Frame>), u64>,
    frames: BTreeMap<Frame, u64>,
    regions: BTreeMap<FrameBlock, u64>,
    unplaced: u64,
}

/// Places with more errors than a threshold, each with their number, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Frames.
    pub frames: Vec<(Frame, u64)>,
    /// Regions of 2 MiB.
    pub regions: Vec<(FrameBlock, u64)>,
}

impl ErrorTally {
    /// A tally without errors.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        let window = u64::try_from(window.as_micros()).unwrap_or(u64::MAX);
        Self {
            step: window.div_ceil(STEPS).max(1),
            log: BTreeMap::new(),
            frames: BTreeMap::new(),
            regions: BTreeMap::new(),
            unplaced: 0,
        }
    }

    /// Counts an error if it is in the window that ends now. An error from the future counts as reported now.
    pub fn add(&mut self, error: &MemoryError, now: Timestamp) {
        self.forget_before(self.oldest(now));
        let (step, count) = (self.step_of(error.at.min(now)), u64::from(error.count));
        if step < self.oldest(now) || count == 0 {
            return;
        }
        *self.log.entry((step, error.frame)).or_default() += count;
        match error.frame {
            Some(frame) => {
                *self.frames.entry(frame).or_default() += count;
                *self.regions.entry(region_of(frame)).or_default() += count;
            }
            None => self.unplaced += count,
        }
    }

    /// The places with more than `threshold` errors in the window that ends now.
    pub fn over(&mut self, threshold: u64, now: Timestamp) -> Suspects {
        self.forget_before(self.oldest(now));
        Suspects { frames: above(&self.frames, threshold), regions: above(&self.regions, threshold) }
    }

    /// Errors with an unknown frame, in the window that ends now.
    pub fn unplaced(&mut self, now: Timestamp) -> u64 {
        self.forget_before(self.oldest(now));
        self.unplaced
    }

    fn step_of(&self, at: Timestamp) -> u64 {
        at.micros() / self.step
    }

    /// The oldest step that counts.
    fn oldest(&self, now: Timestamp) -> u64 {
        self.step_of(now).saturating_sub(STEPS)
    }

    fn forget_before(&mut self, oldest: u64) {
        while let Some(entry) = self.log.first_entry()
            && entry.key().0 < oldest
        {
            let ((_, frame), count) = entry.remove_entry();
            match frame {
                Some(frame) => {
                    take(&mut self.frames, frame, count);
                    take(&mut self.regions, region_of(frame), count);
                }
                None => self.unplaced -= count,
            }
        }
    }
}

fn region_of(frame: Frame) -> FrameBlock {
    let first = Frame::new(frame.number() / REGION.frames() * REGION.frames()).expect("not above the frame");
    FrameBlock::new(first, REGION).expect("a multiple of its frames")
}

fn above<K: Copy + Ord>(counts: &BTreeMap<K, u64>, threshold: u64) -> Vec<(K, u64)> {
    let mut found: Vec<_> = counts.iter().map(|(&place, &count)| (place, count)).collect();
    found.retain(|&(_, count)| count > threshold);
    found.sort_by_key(|&(place, count)| (std::cmp::Reverse(count), place));
    found
}

/// Subtracts from a count, and removes a place without errors.
fn take<K: Ord + Copy>(counts: &mut BTreeMap<K, u64>, place: K, part: u64) {
    let count = counts.get_mut(&place).expect("what is in the log is counted");
    *count -= part;
    if *count == 0 {
        counts.remove(&place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_micros(256 * 10);

    const START: u64 = 1_000_000;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(START + micros)
    }

    fn error(micros: u64, frame: Option<u64>, count: u32) -> MemoryError {
        MemoryError {
            at: at(micros),
            severity: Severity::Corrected,
            count,
            frame: frame.map(|number| Frame::new(number).unwrap()),
            line: None,
            place: None,
            syndrome: None,
            grain: None,
        }
    }

    /// Places by the number of their first frame, each with its count.
    type Numbered = Vec<(u64, u64)>;

    fn numbers(suspects: &Suspects) -> (Numbered, Numbered) {
        let frames = suspects.frames.iter().map(|&(frame, count)| (frame.number(), count));
        let regions = suspects.regions.iter().map(|&(region, count)| (region.first().number(), count));
        (frames.collect(), regions.collect())
    }

    #[test]
    fn a_region_is_suspect_when_no_frame_of_it_is() {
        let mut tally = ErrorTally::new(WINDOW);
        for frame in [512, 600, 1023, 1024] {
            tally.add(&error(0, Some(frame), 2), at(0));
        }
        assert_eq!(numbers(&tally.over(2, at(0))), (vec![], vec![(512, 6)]));
        assert_eq!(numbers(&tally.over(6, at(0))), (vec![], vec![]), "as many as the threshold is not more");
        let frames = vec![(512, 2), (600, 2), (1023, 2), (1024, 2)];
        assert_eq!(numbers(&tally.over(1, at(0))), (frames, vec![(512, 6), (1024, 2)]));
    }

    #[test]
    fn the_place_with_the_most_errors_comes_first() {
        let mut tally = ErrorTally::new(WINDOW);
        for (frame, count) in [(1, 3), (2, 9), (3, 3)] {
            tally.add(&error(0, Some(frame), count), at(0));
        }
        assert_eq!(numbers(&tally.over(0, at(0))).0, [(2, 9), (1, 3), (3, 3)]);
    }

    #[test]
    fn errors_leave_the_window_and_the_memory() {
        let mut tally = ErrorTally::new(WINDOW);
        for micros in 0..100_000 {
            tally.add(&error(micros, Some(7), 1), at(micros));
            tally.add(&error(micros, None, 1), at(micros));
        }
        assert!(tally.log.len() <= 2 * 258, "{}", tally.log.len());
        assert!((2560..=2580).contains(&tally.unplaced(at(99_999))));
        assert_eq!(tally.over(0, at(200_000)), Suspects::default());
        assert_eq!((tally.unplaced(at(200_000)), tally.log.len(), tally.frames.len()), (0, 0, 0));
    }

    #[test]
    fn an_error_from_the_future_counts_from_now_on_and_no_longer() {
        let mut tally = ErrorTally::new(WINDOW);
        let far = MemoryError { at: Timestamp::from_micros(u64::MAX), ..error(0, Some(7), 1) };
        tally.add(&far, at(0));
        assert_eq!(numbers(&tally.over(0, at(2_000))).0, [(7, 1)]);
        assert_eq!(tally.over(0, at(3_000)), Suspects::default());
    }

    /// Keeps every error and counts anew each time.
    #[derive(Default)]
    struct Naive(Vec<(Timestamp, Option<u64>, u64)>);

    impl Naive {
        /// Counts the errors no older than `age` of the frames that `wanted` selects.
        fn count(&self, now: Timestamp, age: Duration, wanted: impl Fn(Option<u64>) -> bool) -> u64 {
            let counts = self.0.iter().filter(|(at, frame, _)| now.since(*at) <= age && wanted(*frame));
            counts.map(|(_, _, count)| count).sum()
        }
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_naive_twin_within_two_steps(
            steps in vec((0_u64..300, 0_u64..4000, prop::option::of(510_u64..515), 0_u32..4), 1..80),
            threshold in 0_u64..12,
        ) {
            let (mut tally, mut naive, mut now) = (ErrorTally::new(WINDOW), Naive::default(), START);
            for (passed, age, frame, count) in steps {
                now += passed;
                let moment = Timestamp::from_micros(now);
                // Some errors are reported late, some with a time in the future.
                let said = Timestamp::from_micros(now + 200 - age);
                tally.add(&MemoryError { at: said, ..error(0, frame, count) }, moment);
                naive.0.push((said.min(moment), frame, u64::from(count)));

                let suspects = tally.over(threshold, moment);
                let (frames, regions) = numbers(&suspects);
                let longest = WINDOW + Duration::from_micros(20);
                let check = |named: &[(u64, u64)], place: u64, wanted: &dyn Fn(Option<u64>) -> bool| {
                    let (least, most) = (naive.count(moment, WINDOW, wanted), naive.count(moment, longest, wanted));
                    match named.iter().find(|&&(first, _)| first == place) {
                        Some(&(_, count)) => (least..=most).contains(&count) && count > threshold,
                        None => least <= threshold,
                    }
                };
                for place in 510..515 {
                    prop_assert!(check(&frames, place, &|frame| frame == Some(place)), "frame {place} {frames:?}");
                }
                for place in [0, 512] {
                    let inside = |frame: Option<u64>| frame.is_some_and(|frame| frame / 512 * 512 == place);
                    prop_assert!(check(&regions, place, &inside), "region {place} {regions:?}");
                }
                let unknown = |frame: Option<u64>| frame.is_none();
                let bounds = naive.count(moment, WINDOW, unknown)..=naive.count(moment, longest, unknown);
                prop_assert!(bounds.contains(&tally.unplaced(moment)));
            }
        }
    }
}
