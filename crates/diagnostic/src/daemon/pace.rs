//! The share of their time in which testers test.
//!
//! **Problem.** Testers run only where no program wants to, and still cost programs something, because caches and
//! memory are shared. **Idea.** Hurry on an idle machine; beside programs, take the small configured share, or as much
//! more as the lifetime needs. **Why this way.** The lifetime is a guarantee, so it comes first; everything beyond it
//! is worth as much an hour later, when the machine may be idle.

use std::time::Duration;

use rampart_memory::Timestamp;

use super::Share;

/// The period of checks whether programs run; many of the kernel's ticks.
pub const LOOK: Duration = Duration::from_millis(200);

/// Programs that together use less of the machine's CPU time do not count: a machine's own housekeeping.
const QUIET: f64 = 0.05;

/// The machine is idle after so many idle checks: a program that waits for a moment comes back.
const QUIET_LOOKS: u32 = 5;

/// The administrator's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The maximum.
    pub most: Share,
    /// The maximum while programs run, unless the lifetime needs more.
    pub beside_programs: Share,
}

/// The urgency of tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Urgency {
    /// Each tester must test for this part of its time, or frames come due untested; 0 or more.
    Needs(f64),
    /// Frames have come due untested.
    Overdue,
}

/// Observations of programs beside the testers.
#[derive(Clone, Copy, Debug)]
pub struct DaemonPace {
    looked: Timestamp,
    busy: Duration,
    quiet: u32,
}

impl DaemonPace {
    /// Begins; `busy` is the time that CPUs ran programs so far, as for [`DaemonPace::look`]. Programs are assumed to
    /// run until a check shows otherwise.
    pub const fn new(now: Timestamp, busy: Duration) -> Self {
        Self { looked: now, busy, quiet: 0 }
    }

    /// Whether it is time for a check.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now.since(self.looked) >= LOOK
    }

    /// Checks the time that `cpus` CPUs ran programs so far.
    pub fn look(&mut self, now: Timestamp, busy: Duration, cpus: u32) {
        let time = now.since(self.looked).as_secs_f64() * f64::from(cpus.max(1));
        let part = busy.saturating_sub(self.busy).as_secs_f64() / time.max(1e-9);
        self.quiet = if part < QUIET { self.quiet + 1 } else { 0 };
        (self.looked, self.busy) = (now, busy);
    }

    /// The share of each tester from now on.
    pub fn share(&self, shares: Shares, urgency: Urgency) -> Share {
        match urgency {
            Urgency::Needs(part) if self.quiet < QUIET_LOOKS => {
                let gentle = shares.beside_programs.get().max(part);
                Share::new(gentle.min(shares.most.get())).unwrap_or(shares.most)
            }
            _ => shares.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: fn() -> Shares =
        || Shares { most: Share::new(0.5).unwrap(), beside_programs: Share::new(0.05).unwrap() };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1000 * millis)
    }

    /// Checks every 200 ms while programs use this part of two CPUs' time; returns the share then.
    fn after(looks: u64, part: f64, urgency: Urgency) -> f64 {
        let mut pace = DaemonPace::new(at(0), Duration::from_secs(1));
        for look in 1..=looks {
            let ran = Duration::from_secs(1) + Duration::from_millis(400 * look).mul_f64(part);
            pace.look(at(200 * look), ran, 2);
        }
        pace.share(SHARES(), urgency).get()
    }

    #[test]
    fn testers_hurry_once_nobody_has_worked_for_a_second() {
        assert_eq!(after(0, 0.0, Urgency::Needs(0.01)), 0.05);
        assert_eq!(after(4, 0.01, Urgency::Needs(0.01)), 0.05);
        assert_eq!(after(5, 0.01, Urgency::Needs(0.01)), 0.5);
        assert_eq!(after(50, 0.06, Urgency::Needs(0.01)), 0.05);
    }

    #[test]
    fn one_busy_look_ends_the_hurry() {
        let mut pace = DaemonPace::new(at(0), Duration::ZERO);
        (1..=9).for_each(|look| pace.look(at(200 * look), Duration::ZERO, 2));
        assert_eq!(pace.share(SHARES(), Urgency::Needs(0.0)).get(), 0.5);
        pace.look(at(2000), Duration::from_millis(40), 2);
        assert_eq!(pace.share(SHARES(), Urgency::Needs(0.0)).get(), 0.05);
    }

    #[test]
    fn the_lifetime_comes_first_and_the_most_is_never_exceeded() {
        assert_eq!(after(9, 1.0, Urgency::Needs(0.2)), 0.2);
        assert_eq!(after(9, 1.0, Urgency::Needs(7.0)), 0.5);
        assert_eq!(after(9, 1.0, Urgency::Overdue), 0.5);
        let tight = Shares { most: Share::new(0.01).unwrap(), ..SHARES() };
        assert_eq!(DaemonPace::new(at(0), Duration::ZERO).share(tight, Urgency::Needs(0.0)).get(), 0.01);
    }

    #[test]
    fn a_clock_that_stands_is_no_idle_machine() {
        let mut pace = DaemonPace::new(at(5), Duration::ZERO);
        (0..9).for_each(|tick| pace.look(at(5), Duration::from_millis(tick), 2));
        assert_eq!(pace.share(SHARES(), Urgency::Needs(0.0)).get(), 0.05);
    }
}
