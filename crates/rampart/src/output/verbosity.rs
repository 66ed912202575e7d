//! How much a command prints: `--quiet` and `--verbose`.

use std::sync::atomic::{AtomicUsize, Ordering};

use rampart_diagnostic::once::report::BadFrame;

use crate::error::Error;
use crate::output::text;

/// The most findings that are printed one by one, unless all are asked for.
pub const FINDINGS_SHOWN: usize = 10;

/// How much a command prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// The verdict, errors, and what was asked for by name.
    Quiet,
    /// A report that fits on a screen.
    #[default]
    Normal,
    /// All findings, and more detail.
    Verbose,
}

impl Verbosity {
    /// The verbosity that the flags ask for.
    ///
    /// # Errors
    /// If both are given. They are global: one may stand before the command, the other after it.
    pub const fn of_flags(quiet: bool, verbose: bool) -> Result<Self, Error> {
        match (quiet, verbose) {
            (true, true) => Err(Error::QuietAndVerbose),
            (true, false) => Ok(Self::Quiet),
            (false, true) => Ok(Self::Verbose),
            (false, false) => Ok(Self::Normal),
        }
    }

    /// Whether only the verdict is printed.
    #[must_use]
    pub fn is_quiet(self) -> bool {
        self == Self::Quiet
    }

    /// Whether all is printed.
    #[must_use]
    pub fn is_verbose(self) -> bool {
        self == Self::Verbose
    }

    /// How many of `all` findings are printed one by one.
    #[must_use]
    pub fn shown(self, all: usize) -> usize {
        match self {
            Self::Quiet => 0,
            Self::Normal => all.min(FINDINGS_SHOWN),
            Self::Verbose => all,
        }
    }
}

/// Prints bad frames while a test finds them: the first few, and from then on their number, each time it doubles. So a
/// daemon on a DIMM that fails does not fill its log, and never falls silent.
#[derive(Debug)]
pub struct LiveFindings {
    verbosity: Verbosity,
    found: AtomicUsize,
}

impl LiveFindings {
    /// Nothing was found yet.
    #[must_use]
    pub const fn new(verbosity: Verbosity) -> Self {
        Self { verbosity, found: AtomicUsize::new(0) }
    }

    /// The line to print about one more bad frame, if there is one.
    pub fn line(&self, bad: &BadFrame) -> Option<String> {
        let number = self.found.fetch_add(1, Ordering::Relaxed) + 1;
        if number <= self.verbosity.shown(number) {
            return Some(format!("found       {}", text::bad_frame(bad)));
        }
        (!self.verbosity.is_quiet()).then(|| count_line(number)).flatten()
    }
}

/// The line about finding `number`, which is not printed itself.
fn count_line(number: usize) -> Option<String> {
    if number == FINDINGS_SHOWN + 1 {
        return Some("found       … and more, which are only counted from here on (--verbose prints each)".to_owned());
    }
    let times = number / FINDINGS_SHOWN;
    let doubled = number.is_multiple_of(FINDINGS_SHOWN) && times.is_power_of_two();
    doubled.then(|| format!("found       {} bad frames so far", text::count(number as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::fault_map::{FailedFrame, MapOrigin};
    use rampart_memory::{Frame, Timestamp};

    fn lines(verbosity: Verbosity, frames: u64) -> Vec<String> {
        let findings = LiveFindings::new(verbosity);
        let at = Timestamp::from_micros(7);
        let bad = |number| FailedFrame::condemned(Frame::new(number).expect("it is small"), at);
        (1..=frames).filter_map(|n| findings.line(&BadFrame::of_frame(MapOrigin::Real, &bad(n)))).collect()
    }

    #[test]
    fn ten_findings_are_printed_and_then_their_number_each_time_it_doubles() {
        let printed = lines(Verbosity::Normal, 120);
        assert_eq!(printed.iter().filter(|line| line.starts_with("found       frame ")).count(), 10);
        assert!(printed[10].contains("--verbose"), "{}", printed[10]);
        let counts: Vec<_> = printed[11..].iter().map(String::as_str).collect();
        assert_eq!(counts, ["20", "40", "80"].map(|n| format!("found       {n} bad frames so far")));
        assert_eq!(lines(Verbosity::Normal, 10).len(), 10, "ten need no further line");
    }

    #[test]
    fn all_findings_or_none_are_printed_if_asked_for() {
        let printed = lines(Verbosity::Verbose, 120);
        assert!(printed.len() == 120 && printed.iter().all(|line| line.contains("found       frame ")));
        assert_eq!(lines(Verbosity::Quiet, 120), Vec::<String>::new());
    }

    #[test]
    fn the_two_flags_exclude_each_other() {
        assert!(matches!(Verbosity::of_flags(true, true), Err(Error::QuietAndVerbose)));
        let of = |quiet, verbose| Verbosity::of_flags(quiet, verbose).expect("one flag at most");
        assert_eq!(
            [of(false, false), of(true, false), of(false, true)],
            [Verbosity::Normal, Verbosity::Quiet, Verbosity::Verbose]
        );
    }
}
