//! Measures the detours of corrected errors, which the firmware injects while the CPUs are watched.
//!
//! As in [Ferreira21, IV-B]: errors are injected at an interval; in a dry run each is prepared and none is injected,
//! which shows the detours of the preparation. Where no error can be injected, a dry run prepares none either.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::cpu::Tsc;
use rampart_linux::{Absence, EinjInjector, InjectionTarget, Roots};
use rampart_scale::attribution::Attribution;
use rampart_scale::noise::Noise;
use rampart_scale::time::Time;
use serde_json::{Value, json};

use super::arguments::NoiseArguments;
use super::plan::{InjectionPlan, errors_within};
use crate::error::Error;
use crate::parsing::time;

/// The interval at which the end of the measurement is checked: long, since each check is a detour of a watched CPU.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Injects errors at an interval while other threads watch the CPUs.
#[derive(Debug)]
pub struct ErrorInjection {
    /// Absent only in a dry run.
    injector: Result<EinjInjector, Absence>,
    every: Duration,
    errors: u64,
    dry_run: bool,
}

impl ErrorInjection {
    /// The injection that the arguments ask for, if any.
    ///
    /// # Errors
    /// If no error would be injected in time, or errors cannot be injected on this machine, which matters to no dry
    /// run.
    pub fn requested(arguments: &NoiseArguments, roots: &Roots) -> Result<Option<Self>, Error> {
        let NoiseArguments { dry_run, duration, .. } = *arguments;
        let Some(every) = arguments.errors_every() else { return Ok(None) };
        if every >= duration {
            return Err(Error::NoErrorInTime);
        }
        let injector = match EinjInjector::open(roots) {
            Err(absence) if !dry_run => return Err(Error::NoErrors(absence)),
            any => any,
        };
        Ok(Some(Self { injector, every, errors: errors_within(duration, every), dry_run }))
    }

    /// The plan of a dry run; `None` if this is none. A real run may lack something else too.
    pub fn plan(&self, roots: &Roots, lacks: Option<&Absence>) -> Option<InjectionPlan> {
        let address = || InjectionTarget::claim(roots)?.address();
        self.dry_run.then(|| InjectionPlan {
            every: self.every,
            errors: self.errors,
            address: address(),
            absent: self.injector.as_ref().err().into_iter().chain(lacks).cloned().collect(),
        })
    }

    /// Injects all errors, or as many as there are until the measurement is `over`.
    pub fn run(self, tsc: &Tsc, over: &AtomicBool) -> Result<InjectionLog, Error> {
        let (every, dry_run, is_prepared) = (self.every, self.dry_run, self.injector.is_ok());
        let mut log = InjectionLog { every, dry_run, is_prepared, moments: Vec::new() };
        let mut due = Instant::now() + self.every;
        while !over.load(Ordering::Relaxed) && (log.moments.len() as u64) < self.errors {
            let wait = due.saturating_duration_since(Instant::now());
            if wait > Duration::ZERO {
                thread::sleep(wait.min(POLL_INTERVAL));
                continue;
            }
            due += self.every;
            if let Ok(injector) = &self.injector {
                injector.prepare()?;
            }
            log.moments.push(tsc.now());
            if let (Ok(injector), false) = (&self.injector, dry_run) {
                injector.make()?;
            }
        }
        Ok(log)
    }
}

/// The injected errors of a measurement.
#[derive(Debug)]
pub struct InjectionLog {
    every: Duration,
    dry_run: bool,
    is_prepared: bool,
    /// The time of each, on the clock of the recorded detours.
    moments: Vec<Duration>,
}

impl InjectionLog {
    /// The time of each error, on the clock of the recorded detours.
    pub fn moments(&self) -> impl Iterator<Item = Time> {
        self.moments.iter().copied().map(time)
    }

    fn attribution(&self, noise: &Noise) -> Attribution {
        Attribution::of(noise, &self.moments().collect::<Vec<_>>(), time(self.every))
    }

    /// Lines of the answer, for people.
    pub fn lines(&self, noise: &Noise) -> Vec<String> {
        let (count, every) = (self.moments.len(), humantime::format_duration(self.every));
        let action = match (self.dry_run, self.is_prepared) {
            (false, _) => "injected",
            (true, true) => "prepared and not injected",
            (true, false) => "due, neither prepared nor injected",
        };
        let head = format!("errors      {count} {action}, one every {every}");
        let found = self.attribution(noise);
        let (Some(median), Some(longest), Some(before)) =
            (found.median_after(), found.after.last(), found.median_before())
        else {
            return vec![head];
        };
        let within = humantime::format_duration(Duration::from_nanos(found.within.nanos()));
        let mut lines = vec![format!(
            "{head}; the longest detour within {within} of each: {median} (median), {longest} (longest); in the same time before: {before} (median)"
        )];
        if !self.dry_run {
            lines.push(format!("project     their cost: rampart project --cost {}ns", median.nanos()));
        }
        lines
    }

    /// JSON, for programs.
    pub fn document(&self, noise: &Noise) -> Value {
        let found = self.attribution(noise);
        json!({
            "every_ns": time(self.every).nanos(), "dry_run": self.dry_run, "prepared": self.is_prepared,
            "at_ns": self.moments().map(Time::nanos).collect::<Vec<_>>(),
            "within_ns": found.within.nanos(),
            "median_ns": found.median_after().map(Time::nanos),
            "longest_ns": found.after.last().copied().map(Time::nanos),
            "median_before_ns": found.median_before().map(Time::nanos),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_scale::noise::{Detour, OfCpu};

    fn injected(dry_run: bool) -> (InjectionLog, Noise) {
        let detour = |(start, length)| Detour { start: Time::from_nanos(start), length: Time::from_nanos(length) };
        // A timer of 5 µs each half second, and 700 µs whenever an error is injected.
        let timer = (0..120_u64).map(|half| (half * 500_000_000, 5_000));
        let errors = [10, 20, 30, 40, 50].map(|second| (second * 1_000_000_000 + 1_000_000, 700_000 + second));
        let mut detours: Vec<_> = timer.chain(errors).collect();
        detours.sort_unstable();
        let of = OfCpu {
            watched: Time::from_nanos(60_000_000_000),
            detours: detours.into_iter().map(detour).collect(),
            ..OfCpu::default()
        };
        let moments = [10, 20, 30, 40, 50].map(Duration::from_secs).to_vec();
        (
            InjectionLog { every: Duration::from_secs(10), dry_run, is_prepared: true, moments },
            Noise { cpus: vec![of], ..Noise::default() },
        )
    }

    #[test]
    fn what_errors_take_is_told_from_what_is_usual() {
        let (log, noise) = injected(false);
        let document = log.document(&noise);
        assert_eq!((document["median_ns"].as_u64(), document["longest_ns"].as_u64()), (Some(700_030), Some(700_050)));
        assert_eq!(
            (document["median_before_ns"].as_u64(), document["within_ns"].as_u64()),
            (Some(5_000), Some(1_000_000_000))
        );
        let lines = log.lines(&noise);
        assert!(
            lines[0].contains("5 injected, one every 10s") && lines[1].ends_with("rampart project --cost 700030ns"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_dry_run_makes_no_claim_of_what_errors_take() {
        let (log, noise) = injected(true);
        let lines = log.lines(&noise);
        assert!(lines.len() == 1 && lines[0].contains("5 prepared and not injected"), "{lines:?}");
        let lines = InjectionLog { is_prepared: false, ..log }.lines(&noise);
        assert!(lines.len() == 1 && lines[0].contains("5 due, neither prepared nor injected"), "{lines:?}");
    }

    #[test]
    fn where_it_was_stopped_before_the_first_error_nothing_is_claimed() {
        let (log, noise) = injected(false);
        let none = InjectionLog { moments: Vec::new(), ..log };
        assert_eq!(none.lines(&noise), ["errors      0 injected, one every 10s"]);
        assert!(none.document(&noise)["median_ns"].is_null());
    }
}
