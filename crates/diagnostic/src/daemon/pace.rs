//! Which share of their time testers test.
//!
//! **Problem.** Testers run only where no program needs the CPU, and still cost programs something, because all share
//! caches and memory. **Idea.** Test fast while no program runs; while programs run, use the small configured share, or
//! more if the lifetime requires it. **Why this way.** The lifetime is a guarantee, so it comes first; any further
//! testing is worth as much an hour later, when the machine may be idle.

use std::time::Duration;

use rampart_memory::Timestamp;

use super::Share;

/// How often the CPU time of programs is read; a multiple of the kernel's tick.
pub const MEASURE_EVERY: Duration = Duration::from_millis(200);

/// Programs that use less than one part in so many of the machine's CPU time count as idle: it is the machine's own
/// housekeeping.
const IDLE_BELOW_ONE_IN: u32 = 20;

/// The machine is idle after this many readings without programs: a program that waits for a moment comes back.
const IDLE_MEASUREMENTS: u32 = 5;

/// The shares that the administrator configures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The maximum at any time.
    pub maximum: Share,
    /// The maximum while programs run, unless the lifetime requires more.
    pub beside_programs: Share,
}

/// The urgency of tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Urgency {
    /// Each tester must test for this fraction of its time, or frames come due untested; 0 or more.
    Needs(f64),
    /// Frames have come due untested.
    Overdue,
}

/// The recent CPU use of other programs.
#[derive(Clone, Copy, Debug)]
pub struct DaemonPace {
    measured: Timestamp,
    busy: Duration,
    idle: u32,
}

impl DaemonPace {
    /// Starts the measurement; `busy` is the CPU time of programs so far, as for [`DaemonPace::measure`]. Programs are
    /// assumed to run until measurements show that they do not.
    pub const fn new(now: Timestamp, busy: Duration) -> Self {
        Self { measured: now, busy, idle: 0 }
    }

    /// Whether the next measurement is due.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now.since(self.measured) >= MEASURE_EVERY
    }

    /// Measures: `busy` is the time that `cpus` CPUs have run programs so far.
    pub fn measure(&mut self, now: Timestamp, busy: Duration, cpus: u32) {
        let (time, ran) = (now.since(self.measured) * cpus, busy.saturating_sub(self.busy));
        self.idle = if ran * IDLE_BELOW_ONE_IN < time { self.idle + 1 } else { 0 };
        (self.measured, self.busy) = (now, busy);
    }

    /// The share of each tester from now on.
    pub fn share(&self, shares: Shares, urgency: Urgency) -> Share {
        match urgency {
            Urgency::Needs(part) if self.idle < IDLE_MEASUREMENTS => {
                let gentle = shares.beside_programs.get().max(part);
                Share::new(gentle.min(shares.maximum.get())).unwrap_or(shares.maximum)
            }
            _ => shares.maximum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: fn() -> Shares =
        || Shares { maximum: Share::new(0.5).unwrap(), beside_programs: Share::new(0.05).unwrap() };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1000 * millis)
    }

    /// Measures `looks` times, every 200 ms, while programs use the fraction `part` of two CPUs; returns the resulting
    /// share.
    fn after(looks: u64, part: f64, urgency: Urgency) -> f64 {
        let mut pace = DaemonPace::new(at(0), Duration::from_secs(1));
        for look in 1..=looks {
            let ran = Duration::from_secs(1) + Duration::from_millis(400 * look).mul_f64(part);
            pace.measure(at(200 * look), ran, 2);
        }
        pace.share(SHARES(), urgency).get()
    }

    #[test]
    fn testers_hurry_once_nobody_has_worked_for_a_second() {
        assert_eq!(after(0, 0.0, Urgency::Needs(0.01)), 0.05);
        assert_eq!(after(4, 0.04, Urgency::Needs(0.01)), 0.05);
        assert_eq!(after(5, 0.04, Urgency::Needs(0.01)), 0.5);
        assert_eq!(after(50, 0.06, Urgency::Needs(0.01)), 0.05);
        assert_eq!(after(50, 0.05, Urgency::Needs(0.01)), 0.05, "no less than a part in twenty");
    }

    #[test]
    fn one_busy_look_ends_the_hurry() {
        let mut pace = DaemonPace::new(at(0), Duration::ZERO);
        (1..=9).for_each(|look| pace.measure(at(200 * look), Duration::ZERO, 2));
        assert_eq!(pace.share(SHARES(), Urgency::Needs(0.0)).get(), 0.5);
        pace.measure(at(2000), Duration::from_millis(40), 2);
        assert_eq!(pace.share(SHARES(), Urgency::Needs(0.0)).get(), 0.05);
    }

    #[test]
    fn the_lifetime_comes_first_and_the_most_is_never_exceeded() {
        assert_eq!(after(9, 1.0, Urgency::Needs(0.2)), 0.2);
        assert_eq!(after(9, 1.0, Urgency::Needs(7.0)), 0.5);
        assert_eq!(after(9, 1.0, Urgency::Overdue), 0.5);
        let tight = Shares { maximum: Share::new(0.01).unwrap(), ..SHARES() };
        assert_eq!(DaemonPace::new(at(0), Duration::ZERO).share(tight, Urgency::Needs(0.0)).get(), 0.01);
    }

    #[test]
    fn a_clock_that_stands_is_no_idle_machine() {
        let mut pace = DaemonPace::new(at(5), Duration::ZERO);
        (0..9).for_each(|tick| pace.measure(at(5), Duration::from_millis(tick), 2));
        assert_eq!(pace.share(SHARES(), Urgency::Needs(0.0)).get(), 0.05);
    }

    #[test]
    fn the_time_of_programs_is_measured_five_times_a_second() {
        let mut pace = DaemonPace::new(at(100), Duration::ZERO);
        assert!(!pace.is_due(at(299)) && pace.is_due(at(300)));
        pace.measure(at(300), Duration::ZERO, 2);
        assert!(!pace.is_due(at(400)));
    }
}
