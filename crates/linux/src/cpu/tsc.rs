//! The time-stamp counter: the CPU's own clock, read in some nanoseconds without a system call.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the counter is read by an instruction"))]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Absence;

/// The time of the rate's measurement: the uncertainty of reading two clocks in sequence is a millionth of it.
const MEASURED_FOR: Duration = Duration::from_millis(100);

/// The counter, with its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tsc {
    /// Its value when the rate was known: the start of its time.
    origin: u64,
    ticks_per_second: f64,
}

impl Tsc {
    /// The source of the rate.
    pub const SOURCE: &str = "measured for 100 ms against the kernel's raw monotonic clock";

    /// Measures its rate.
    ///
    /// # Errors
    /// If this machine has no such counter, or one that does not tick evenly (Intel, *Software Developer's Manual*,
    /// volume 3, 19.17.1).
    pub fn measured() -> Result<Self, Absence> {
        invariant()?;
        let (begun, first, clock) = (Instant::now(), Self::read(), raw());
        while begun.elapsed() < MEASURED_FOR {
            std::hint::spin_loop();
        }
        let (origin, passed) = (Self::read(), raw().saturating_sub(clock));
        #[expect(clippy::cast_precision_loss, reason = "more digits than were measured")]
        Ok(Self { origin, ticks_per_second: (origin - first) as f64 / passed.as_secs_f64() })
    }

    /// Ticks in a second.
    #[must_use]
    pub const fn ticks_per_second(&self) -> f64 {
        self.ticks_per_second
    }

    /// The duration of so many ticks.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "2^53 ticks are weeks")]
    pub fn duration(&self, ticks: u64) -> Duration {
        Duration::from_secs_f64(ticks as f64 / self.ticks_per_second)
    }

    /// The ticks in a duration.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
    pub fn ticks(&self, duration: Duration) -> u64 {
        (duration.as_secs_f64() * self.ticks_per_second) as u64
    }

    /// The time since the start of a counter value.
    #[must_use]
    pub fn since_start(&self, value: u64) -> Duration {
        self.duration(value.saturating_sub(self.origin))
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.since_start(Self::read())
    }

    /// The present counter value.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 CPU has the instruction; it only reads. Where the kernel forbids it to a process
        // (PR_SET_TSC), the process ends by a signal.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Never called: [`Self::measured`] reports that there is none.
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn read() -> u64 {
        0
    }
}

fn raw() -> Duration {
    Duration::try_from(clock_gettime(ClockId::MonotonicRaw)).expect("time since boot is not negative")
}

#[cfg(target_arch = "x86_64")]
fn invariant() -> Result<(), Absence> {
    use std::arch::x86_64::__cpuid;

    const LARGEST: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    if __cpuid(LARGEST).eax >= POWER && __cpuid(POWER).edx & INVARIANT != 0 {
        return Ok(());
    }
    Err(Absence::new(
        "the time-stamp counter of this CPU is not invariant: its ticks are no measure of time",
        "run on a CPU with an invariant counter, or have the virtual machine show it (CPUID 80000007H)",
    ))
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant() -> Result<(), Absence> {
    Err(Absence::new("this CPU has no time-stamp counter of x86", "run on an x86-64 machine"))
}

#[cfg(test)]
mod tests {
    use rampart_skips::{Feature, granted};

    use super::*;

    #[test]
    fn the_counter_goes_as_fast_as_the_clock() {
        let Some(tsc) = granted(&[Feature::TimeStampCounter], Tsc::measured()) else { return };
        let (first, clock) = (Tsc::read(), raw());
        std::thread::sleep(Duration::from_millis(20));
        let (ticks, passed) = (Tsc::read() - first, raw().saturating_sub(clock));
        let apart = tsc.duration(ticks).abs_diff(passed);
        assert!(apart < passed / 20, "{:?} and {passed:?}", tsc.duration(ticks));
        assert!(tsc.since_start(Tsc::read()) >= passed);
    }

    #[test]
    fn ticks_and_time_are_told_by_the_rate() {
        let tsc = Tsc { origin: 1000, ticks_per_second: 2.5e9 };
        assert_eq!(tsc.ticks(Duration::from_nanos(150)), 375);
        assert_eq!(tsc.duration(375), Duration::from_nanos(150));
        assert_eq!(tsc.since_start(3500), Duration::from_micros(1));
        assert_eq!(tsc.since_start(1), Duration::ZERO);
    }
}
