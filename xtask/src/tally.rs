//! How many tests passed and failed, added up from what test programs print.

use std::fmt;

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    pub failed: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    /// The counts in the closing line of one test binary; `None` for any other line.
    pub fn of(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Self { passed: count("passed")?, failed: count("failed")? })
    }

    /// The result of a scenario's check; `None` for any other line.
    pub fn of_check(line: &str) -> Option<Self> {
        match line.trim_start().split_once(' ')?.0 {
            "pass" => Some(Self { passed: 1, failed: 0 }),
            "fail" => Some(Self { passed: 0, failed: 1 }),
            _ => None,
        }
    }

    /// These counts; with one more failure if there is none and yet the whole failed.
    pub fn with_outcome(self, succeeded: bool) -> Self {
        let failed = if succeeded { self.failed } else { self.failed.max(1) };
        Self { failed, ..self }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
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
        assert_eq!(total, Tally { passed: 15, failed: 2 });
    }

    #[test]
    fn checks_of_scenarios_count_one_each_and_a_guest_that_never_ends_counts_as_failed() {
        let mut total = Tally::default();
        for line in
            ["== retire, boot 1", "   pass it is retired", "   fail it is seen: pass 2", "   skip passed", "   end"]
        {
            total += Tally::of_check(line).unwrap_or_default();
        }
        assert_eq!(total, Tally { passed: 1, failed: 1 });
        assert_eq!(total.with_outcome(false), total);
        assert_eq!(Tally::default().with_outcome(false), Tally { passed: 0, failed: 1 });
        assert_eq!(Tally::default().with_outcome(true), Tally::default());
    }
}
