//! Detours of a CPU, as a program sees them that only reads the clock.
//!
//! **Problem.** Interrupts, the kernel, and firmware that no kernel sees take a CPU from its program without any
//! record. **Idea.** A thread bound to the CPU reads the time-stamp counter continuously; if two readings differ by
//! more than a threshold, something else ran in between. **Why this way.** It is the field's benchmark *selfish*
//! [Ferreira21, III-B], and it sees firmware too.
//!
//! Records go to memory that is already present, so that recording does not look like a detour.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{CpuNumber, Tsc, bind};
use crate::Error;

/// A detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuDetour {
    /// Its start, in the counter's time.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
}

/// The detours of one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The time of the measurement.
    pub length: Duration,
    /// The detours, in order.
    pub detours: Vec<CpuDetour>,
    /// Further detours without room in the list.
    pub beyond: u64,
    /// Their total length.
    pub beyond_took: Duration,
}

/// Watches a CPU from the calling thread for so long, or until `stop` is set; at most `most` of the detours above the
/// threshold are kept.
///
/// # Errors
/// [`Error::Bind`] if this thread may not run on that CPU.
pub fn watch(
    cpu: CpuNumber,
    tsc: &Tsc,
    threshold: Duration,
    length: Duration,
    most: usize,
    stop: &AtomicBool,
) -> Result<Watched, Error> {
    bind(cpu)?;
    let mut readings = Readings::new(tsc.ticks(threshold), most);
    let first = Tsc::read();
    let end = first + tsc.ticks(length);
    readings.last = first;
    while readings.last < end && !stop.load(Ordering::Relaxed) {
        readings.see(Tsc::read());
    }
    Ok(readings.watched(first, tsc))
}

/// Successive readings of the counter, in ticks.
struct Readings {
    last: u64,
    threshold: u64,
    /// Starts and lengths.
    detours: Vec<(u64, u64)>,
    most: usize,
    beyond: u64,
    beyond_took: u64,
}

impl Readings {
    fn new(threshold: u64, most: usize) -> Self {
        // Written once, so that the kernel has given its frames before the measurement.
        let mut detours = vec![(u64::MAX, u64::MAX); most];
        detours.clear();
        Self { last: 0, threshold, detours, most, beyond: 0, beyond_took: 0 }
    }

    #[inline]
    fn see(&mut self, now: u64) {
        let length = now.saturating_sub(self.last);
        if length > self.threshold {
            self.record(length);
        }
        self.last = now;
    }

    #[cold]
    fn record(&mut self, length: u64) {
        if self.detours.len() < self.most {
            self.detours.push((self.last, length));
        } else {
            self.beyond += 1;
            self.beyond_took += length;
        }
    }

    fn watched(self, first: u64, tsc: &Tsc) -> Watched {
        let detour = |(start, length)| CpuDetour { start: tsc.since_start(start), length: tsc.duration(length) };
        Watched {
            length: tsc.duration(self.last - first),
            detours: self.detours.into_iter().map(detour).collect(),
            beyond: self.beyond,
            beyond_took: tsc.duration(self.beyond_took),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rampart_skips::{Feature, granted};

    use super::*;
    use crate::{Roots, Topology};

    #[test]
    fn readings_further_apart_than_the_threshold_are_detours() {
        let mut readings = Readings::new(100, 2);
        for now in [50, 150, 251, 252, 1252, 1300, 1600, 1601, 5000] {
            readings.see(now);
        }
        assert_eq!(readings.detours, [(150, 101), (252, 1000)]);
        assert_eq!((readings.beyond, readings.beyond_took), (2, 300 + 3399));
    }

    #[test]
    fn a_cpu_is_watched_for_so_long_and_no_detour_is_longer_than_that() {
        let Some(tsc) = granted(&[Feature::TimeStampCounter], Tsc::measured()) else { return };
        let cpu = Topology::read(&Roots::default()).allowed[0];
        let long = Duration::from_millis(30);
        let watching = || watch(cpu, &tsc, Duration::from_nanos(150), long, 1000, &AtomicBool::new(false));
        let watched = thread::scope(|scope| scope.spawn(watching).join().unwrap()).unwrap();
        assert!(watched.length >= long, "{watched:?}");
        let took: Duration = watched.detours.iter().map(|detour| detour.length).sum();
        assert!(took + watched.beyond_took <= watched.length);
        assert!(
            watched.detours.windows(2).all(|pair| pair[0].start + pair[0].length <= pair[1].start + tsc.duration(2))
        );
        assert!(watched.detours.iter().all(|detour| detour.length > Duration::from_nanos(140)));
    }

    #[test]
    fn watching_ends_when_it_is_told_to() {
        let Some(tsc) = granted(&[Feature::TimeStampCounter], Tsc::measured()) else { return };
        let cpu = Topology::read(&Roots::default()).allowed[0];
        let watching =
            || watch(cpu, &tsc, Duration::from_millis(1), Duration::from_secs(600), 10, &AtomicBool::new(true));
        let watched = thread::scope(|scope| scope.spawn(watching).join().unwrap()).unwrap();
        assert_eq!(watched.length, Duration::ZERO);
    }
}
