//! What corrected errors take from the CPUs that are watched, where the firmware makes some.
//!
//! As in [Ferreira21, IV-B]: one every so often, beside a dry run in which each is prepared and none is made,
//! which tells what preparing takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::cpu::Tsc;
use rampart_linux::{EinjInjector, Roots};
use rampart_scale::attribution::Attribution;
use rampart_scale::noise::Noise;
use rampart_scale::time::Time;
use serde_json::{Value, json};

use super::arguments::NoiseArguments;
use crate::error::Error;
use crate::parsing::time;

/// Between two looks at whether the watching is over: seldom, since a look takes a watched CPU.
const LOOK: Duration = Duration::from_millis(500);

/// Makes them while others watch.
#[derive(Debug)]
pub struct ErrorInjection {
    maker: EinjInjector,
    every: Duration,
    dry_run: bool,
}

impl ErrorInjection {
    /// What was asked for, if anything was and if it is possible here.
    pub fn asked_for(arguments: &NoiseArguments, roots: &Roots) -> Result<Option<Self>, Error> {
        let NoiseArguments { errors_every, dry_run, duration, .. } = *arguments;
        let Some(every) = errors_every else { return Ok(None) };
        if every >= duration {
            return Err(Error::NoErrorInTime);
        }
        let maker = EinjInjector::open(roots).map_err(Error::NoErrors)?;
        Ok(Some(Self { maker, every, dry_run }))
    }

    /// Makes one every so often until it is over.
    pub fn make(self, tsc: &Tsc, over: &AtomicBool) -> Result<Made, Error> {
        let mut made = Made { every: self.every, dry_run: self.dry_run, moments: Vec::new() };
        let mut due = Instant::now() + self.every;
        while !over.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            if left > Duration::ZERO {
                thread::sleep(left.min(LOOK));
                continue;
            }
            due += self.every;
            self.maker.prepare()?;
            made.moments.push(tsc.now());
            if !self.dry_run {
                self.maker.make()?;
            }
        }
        Ok(made)
    }
}

/// What was made.
#[derive(Debug)]
pub struct Made {
    every: Duration,
    dry_run: bool,
    /// When, in the time of the record.
    moments: Vec<Duration>,
}

impl Made {
    /// When, in the time of the record.
    pub fn moments(&self) -> impl Iterator<Item = Time> {
        self.moments.iter().copied().map(time)
    }

    fn attribution(&self, noise: &Noise) -> Attribution {
        Attribution::of(noise, &self.moments().collect::<Vec<_>>(), time(self.every))
    }

    /// For people.
    pub fn lines(&self, noise: &Noise) -> Vec<String> {
        let (count, every) = (self.moments.len(), humantime::format_duration(self.every));
        let told = if self.dry_run { "prepared and not made" } else { "made" };
        let head = format!("errors      {count} {told}, one every {every}");
        let found = self.attribution(noise);
        let (Some(median), Some(most), Some(usual)) = (found.median_after(), found.after.last(), found.median_before())
        else {
            return vec![head];
        };
        let within = humantime::format_duration(Duration::from_nanos(found.within.nanos()));
        let mut lines = vec![format!(
            "{head}; the longest detour within {within} of each: {median} (median), {most} (most); in as long before: {usual} (median)"
        )];
        if !self.dry_run {
            lines.push(format!("project     what that costs: rampart project --cost {}ns", median.nanos()));
        }
        lines
    }

    /// For programs.
    pub fn document(&self, noise: &Noise) -> Value {
        let found = self.attribution(noise);
        json!({
            "every_ns": time(self.every).nanos(), "dry_run": self.dry_run,
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

    fn made(dry_run: bool) -> (Made, Noise) {
        let detour = |(start, length)| Detour { start: Time::from_nanos(start), length: Time::from_nanos(length) };
        // A timer of 5 µs each half second, and 700 µs whenever an error is made.
        let usual = (0..120_u64).map(|half| (half * 500_000_000, 5_000));
        let errors = [10, 20, 30, 40, 50].map(|second| (second * 1_000_000_000 + 1_000_000, 700_000 + second));
        let mut detours: Vec<_> = usual.chain(errors).collect();
        detours.sort_unstable();
        let of = OfCpu {
            watched: Time::from_nanos(60_000_000_000),
            detours: detours.into_iter().map(detour).collect(),
            ..OfCpu::default()
        };
        let moments = [10, 20, 30, 40, 50].map(Duration::from_secs).to_vec();
        (Made { every: Duration::from_secs(10), dry_run, moments }, Noise { cpus: vec![of], ..Noise::default() })
    }

    #[test]
    fn what_errors_take_is_told_from_what_is_usual() {
        let (made, noise) = made(false);
        let document = made.document(&noise);
        assert_eq!((document["median_ns"].as_u64(), document["longest_ns"].as_u64()), (Some(700_030), Some(700_050)));
        assert_eq!(
            (document["median_before_ns"].as_u64(), document["within_ns"].as_u64()),
            (Some(5_000), Some(1_000_000_000))
        );
        let lines = made.lines(&noise);
        assert!(
            lines[0].contains("5 made, one every 10s") && lines[1].ends_with("rampart project --cost 700030ns"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_dry_run_makes_no_claim_of_what_errors_take() {
        let (made, noise) = made(true);
        let lines = made.lines(&noise);
        assert!(lines.len() == 1 && lines[0].contains("5 prepared and not made"), "{lines:?}");
    }

    #[test]
    fn where_it_was_stopped_before_the_first_error_nothing_is_claimed() {
        let (made, noise) = made(false);
        let none = Made { moments: Vec::new(), ..made };
        assert_eq!(none.lines(&noise), ["errors      0 made, one every 10s"]);
        assert!(none.document(&noise)["median_ns"].is_null());
    }
}
