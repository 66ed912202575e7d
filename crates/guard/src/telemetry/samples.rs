//! Counts over time, for the drawings of a report.
//!
//! **Problem.** A program runs for a second or for a year, and a report on either needs a few hundred points. **Idea.**
//! Samples are taken at an interval that doubles after each `AT_ONE_PACE` of them. **Why this way.** Half of that many
//! lie in the newer half of a run of any length; nothing is written twice; and the file grows with the logarithm of the
//! time: below 6 MiB in a year. Some counters are integrals over time, so means between two samples are exact at any
//! distance.

use std::time::Duration;

use rampart_memory::Timestamp;

use crate::telemetry::counts::{COUNTERS, Snapshot};

/// The interval of the first samples; while no counter changes it may be longer.
const FIRST_PACE: Duration = Duration::from_millis(10);

/// Samples until the rate is halved.
const AT_ONE_PACE: u32 = 800;

/// The time, and each counter.
pub const WORDS: usize = 1 + COUNTERS;

/// All counters at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Their values.
    pub counts: Snapshot,
}

impl Sample {
    /// In the form of a journal: microseconds since 1970, and the counters in order.
    #[must_use]
    pub fn to_words(self) -> [u64; WORDS] {
        let mut words = [self.at.micros(); WORDS];
        words[1..].copy_from_slice(self.counts.words());
        words
    }

    /// As [`Sample::to_words`] wrote it; `None` with too few words.
    #[must_use]
    pub fn from_words(mut words: impl Iterator<Item = u64>) -> Option<Self> {
        let at = Timestamp::from_micros(words.next()?);
        Some(Self { at, counts: Snapshot::from_words(words)? })
    }
}

/// The time of the next sample.
#[derive(Clone, Copy, Debug)]
pub struct SamplePace {
    every: Duration,
    taken: u32,
    last: Option<Timestamp>,
}

impl Default for SamplePace {
    fn default() -> Self {
        Self { every: FIRST_PACE, taken: 0, last: None }
    }
}

impl SamplePace {
    /// Whether a sample is due; if so, it counts as taken.
    pub fn is_due(&mut self, now: Timestamp) -> bool {
        if self.last.is_some_and(|last| now.since(last) < self.every) {
            return false;
        }
        self.last = Some(now);
        self.taken += 1;
        if self.taken == AT_ONE_PACE {
            (self.taken, self.every) = (0, self.every.saturating_mul(2));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_back() {
        let sample = Sample { at: Timestamp::from_micros(5), counts: Snapshot::from_words(7..).unwrap() };
        assert_eq!(Sample::from_words(sample.to_words().into_iter()), Some(sample));
        assert_eq!(Sample::from_words(0..3), None);
    }

    #[test]
    fn a_year_is_few_megabytes_and_its_end_is_drawn_as_well_as_its_beginning() {
        let mut pace = SamplePace::default();
        let step = Duration::from_millis(5);
        let second: u64 = (0..200_u32).map(|i| u64::from(pace.is_due(Timestamp::default().after(step * i)))).sum();
        assert_eq!(second, 100, "in the first second");
        // The clock leaps to the time of the next sample.
        let (mut pace, mut now, mut taken) = (SamplePace::default(), Timestamp::default(), 0_u64);
        let year = Timestamp::default().after(Duration::from_secs(365 * 86_400));
        while now < year {
            assert!(pace.is_due(now) && !pace.is_due(now));
            now = now.after(pace.every);
            taken += 1;
        }
        assert!(taken * WORDS as u64 * 8 < 6 << 20, "{taken} samples");
        assert!(pace.every < Duration::from_secs(365 * 86_400) / 512, "{:?}", pace.every);
    }
}
