//! The speed of this machine's memory for one core, so that a test's speed can be given as a fraction of it.
//!
//! A core that could not overlap reads and writes would test a byte in the time of its reads plus that of its writes.
//! Speeds are compared with that limit; a loop that overlaps the two can exceed it. Both are measured where the test
//! runs, on its memory and beside the same other programs, and each is the median over parts of the region.
//!
//! What is written here is never zero: an AMD EPYC (Zen 4) wrote lines of zeros at 89 GB/s, and all others at 28.

use std::ops::Range;
use std::time::{Duration, Instant};

use rampart_memory::{LINE_BYTES, LineData};
use serde::Serialize;

use super::steps::{Read, Step};
use super::sweep::Sweep;
use super::watch::{Log, Unwatched};
use super::{Executor, MarchEngine, MarchSettings, Method, Region, arch};
use crate::{AddressSequence, Direction};

/// Lines measured at once: 4 MiB.
const PART: u64 = 65536;

/// The number of measurements; in a small region, some parts are measured more than once.
const ROUNDS: u64 = 15;

/// The speed of one core, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Writing alone, with the fastest method.
    pub write: f64,
    /// Reading and comparing alone, prefetched.
    pub read: f64,
}

impl Limit {
    /// Measures, in some 50 ms. The region's content is lost.
    #[must_use]
    pub fn measure(engine: MarchEngine, region: &mut Region<'_>) -> Self {
        let ones = LineData::ZERO.inverted();
        let lines = region.lines();
        let of_methods = Method::ALL.map(|method| {
            let write = Step { read: None, write: Some(ones), evict: is_flushed(method) };
            let read = Step { read: Some(Read { op: 0, expected: ones }), write: None, evict: false };
            let executor = Executor { engine, settings: MarchSettings::new(method) };
            let (mut writing, mut reading) = (Vec::new(), Vec::new());
            for round in 0..ROUNDS {
                let part = part(round, lines);
                let sweep = executor.sweep(region, AddressSequence::Sequential, Direction::Up);
                writing.push(speed(&sweep, &write, part.clone()));
                sweep.flush(part.clone());
                arch::fence();
                reading.push(speed(&sweep, &read, part));
            }
            Self { write: median(writing), read: median(reading) }
        });
        let fastest = |of: fn(&Self) -> f64| of_methods.iter().map(of).fold(0.0, f64::max);
        Self { write: fastest(|limit| limit.write), read: fastest(|limit| limit.read) }
    }

    /// The time per byte, in seconds, of a test with this many reads and writes of each line at this limit.
    #[must_use]
    pub fn seconds_per_byte(&self, reads: usize, writes: usize) -> f64 {
        reads as f64 / self.read + writes as f64 / self.write
    }

    /// The bytes per second of such a test at this limit.
    #[must_use]
    pub fn of(&self, reads: usize, writes: usize) -> f64 {
        self.seconds_per_byte(reads, writes).recip()
    }
}

/// Whether what is only written must be flushed to have left the processor: not if it was written past the caches.
const fn is_flushed(method: Method) -> bool {
    !matches!(method, Method::NonTemporal)
}

/// The part of a region of `lines` that a round measures.
fn part(round: u64, lines: u64) -> Range<u64> {
    let start = round * PART % lines.next_multiple_of(PART);
    start..lines.min(start + PART)
}

fn speed(sweep: &Sweep<'_>, step: &Step, part: Range<u64>) -> f64 {
    let start = Instant::now();
    let _ = sweep.step(step, part.clone(), &mut Log::new(&mut Unwatched));
    bytes_a_second(&part, start.elapsed())
}

fn bytes_a_second(lines: &Range<u64>, took: Duration) -> f64 {
    ((lines.end - lines.start) * LINE_BYTES) as f64 / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::tests::Memory;

    #[test]
    fn a_test_at_the_limit_takes_the_time_of_its_reads_and_of_its_writes() {
        // The figures of one machine: (r,w) has a limit of 10.6 GB/s, March C- with 5 reads and 5 writes 2.12.
        let limit = Limit { write: 24.3e9, read: 18.8e9 };
        assert_eq!((limit.of(1, 1) / 1e8).round(), 106.0);
        assert_eq!((limit.of(5, 5) / 1e7).round(), 212.0);
    }

    #[test]
    fn rounds_measure_one_part_after_the_other_and_begin_anew() {
        let lines = 2 * PART + 100;
        let parts = [0..PART, PART..2 * PART, 2 * PART..lines, 0..PART, PART..2 * PART];
        assert_eq!([0, 1, 2, 3, 4].map(|round| part(round, lines)), parts);
        assert_eq!([part(0, 70), part(14, 70)], [0..70, 0..70]);
        assert_eq!(Method::ALL.map(is_flushed), [true, true, false]);
    }

    #[test]
    fn a_speed_is_bytes_by_time_and_the_median_counts() {
        assert_eq!(bytes_a_second(&(1000..1100), Duration::from_micros(64)), 1e8);
        assert_eq!(median(vec![5.0, 1.0, 9.0, 2.0, 3.0]), 3.0);
    }

    #[test]
    fn the_limit_of_a_region_of_any_size_is_a_speed() {
        for lines in [1, 64, PART + 64] {
            let memory = Memory::new(lines);
            for engine in MarchEngine::all_available() {
                let limit = Limit::measure(engine, &mut memory.region());
                assert!(limit.write.is_finite() && limit.write > 1e3, "{engine}, {lines} lines: {limit:?}");
                assert!(limit.read.is_finite() && limit.read > 1e3, "{engine}, {lines} lines: {limit:?}");
            }
        }
    }
}
