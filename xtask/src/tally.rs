//! How many tests passed, failed and were skipped, added up from what test programs print.

use std::fmt;
use std::ops::{Add, AddAssign};

use rampart_skips::Feature;

use crate::error::Error;

/// How many tests passed, failed and were skipped. The test runner counts those that were skipped as passed, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Tally {
    /// The counts in the closing line of one test binary; `None` for any other line.
    pub fn of(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Self { passed: count("passed")?, failed: count("failed")?, skipped: 0 })
    }

    /// The result of a scenario's check; `None` for any other line. What is skipped for no feature has failed.
    pub fn of_check(line: &str) -> Option<Self> {
        match line.trim_start().split_once(' ')?.0 {
            "pass" => Some(Self { passed: 1, ..Self::default() }),
            "fail" => Some(Self { failed: 1, ..Self::default() }),
            "skip" if skipped_check(line).is_none() => Some(Self { failed: 1, ..Self::default() }),
            _ => None,
        }
    }

    /// These counts; with one more failure if there is none and yet the whole failed.
    pub fn with_outcome(self, succeeded: bool) -> Self {
        let failed = if succeeded { self.failed } else { self.failed.max(1) };
        Self { failed, ..self }
    }

    /// Whether nothing failed.
    pub fn outcome(self) -> Result<(), Error> {
        if self.failed > 0 { Err(Error::TestsFailed) } else { Ok(()) }
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The feature that a scenario's check lacks, and what it says of that: `skip FEATURE: WHY`.
pub fn skipped_check(line: &str) -> Option<(Feature, &str)> {
    let (name, why) = line.trim_start().strip_prefix("skip ")?.split_once(": ")?;
    Some((Feature::named(name)?, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_test_binaries_are_added_up() {
        let mut total = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test says: 5 passed; 5 failed",
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ] {
            total += Tally::of(line).unwrap_or_default();
        }
        assert_eq!(total, Tally { passed: 15, failed: 2, skipped: 0 });
        assert_eq!(total.to_string(), "15 passed, 2 failed, 0 skipped");
    }

    #[test]
    fn checks_of_scenarios_count_one_each_and_a_guest_that_never_ends_counts_as_failed() {
        let mut total = Tally::default();
        for line in [
            "== retire, boot 1",
            "   pass it is retired",
            "   fail it is seen: pass 2",
            "   skip userfaultfd-move: it passed",
            "   end",
        ] {
            total += Tally::of_check(line).unwrap_or_default();
        }
        assert_eq!(total, Tally { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(total.with_outcome(false), total);
        assert_eq!(Tally::default().with_outcome(false), Tally { failed: 1, ..Tally::default() });
        assert_eq!(Tally::default().with_outcome(true), Tally::default());
    }

    #[test]
    fn a_check_is_skipped_for_a_feature_or_it_has_failed() {
        assert_eq!(skipped_check("   skip userfaultfd-move: Linux 6.1"), Some((Feature::UserfaultfdMove, "Linux 6.1")));
        for line in ["   skip engine move: old", "   skip it"] {
            assert_eq!(skipped_check(line), None, "{line}");
            assert_eq!(Tally::of_check(line), Some(Tally { failed: 1, ..Tally::default() }), "{line}");
        }
        assert_eq!(skipped_check("   pass root: it"), None);
    }
}
