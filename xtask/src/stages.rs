//! Everything that must pass before a change is kept, in one command.
//!
//! One profile serves all stages, so each dependency is compiled at most twice: once to check, once to run.

use std::fmt;
use std::num::NonZero;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use crate::error::Error;
use crate::process::{cargo, run, run_watched};
use crate::{fuzz, scenarios, tidy};

/// Runs the checks, then the tests. If it came to the tests, the last line says how many passed and failed.
pub fn run_all(root: &Path) -> Result<(), Error> {
    run_checks(root)?;
    eprintln!("== tests");
    tests(root)
}

/// Runs the stages before the tests, up to the first that fails.
pub fn run_checks(root: &Path) -> Result<(), Error> {
    type Stage = (&'static str, fn(&Path) -> Result<(), Error>);
    let stages: [Stage; 5] = [
        ("format", format),
        ("tidy", tidy::run),
        ("lints", lints),
        ("fuzz targets compile", fuzz::check),
        ("documents", documents),
    ];
    for (stage, perform) in stages {
        eprintln!("== {stage}");
        let start = Instant::now();
        perform(root).map_err(|cause| Error::Stage { stage, cause: Box::new(cause) })?;
        eprintln!("== {stage}: passed in {} s\n", start.elapsed().as_secs());
    }
    Ok(())
}

fn format(root: &Path) -> Result<(), Error> {
    run(cargo(root).args(["fmt", "--all", "--check"]))?;
    run(cargo(root).args(["fmt", "--manifest-path", fuzz::MANIFEST, "--check"]))
}

fn lints(root: &Path) -> Result<(), Error> {
    run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn documents(root: &Path) -> Result<(), Error> {
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    run(cargo(root).args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests(root: &Path) -> Result<(), Error> {
    let mut total = Tally::default();
    let mut tests = cargo(root);
    // Many wait, for what a guard does in the background: one more at once than there are CPUs.
    let at_once = available_parallelism().map_or(2, NonZero::get) + 1;
    tests.args(["test", "--workspace", "--no-fail-fast"]).env("RUST_TEST_THREADS", at_once.to_string());
    let outcome = run_watched(&mut tests, |line| {
        total += Tally::of(line).unwrap_or_default();
    });
    // What the scenarios are built from compiles where the tests do.
    let checks = scenarios::run_short(root);
    total += checks.as_ref().copied().unwrap_or_default();
    println!("\n{total}");
    // Where no test failed, something else did: a test that does not compile, or that ended its whole program.
    let outcome = outcome.and_then(|()| checks.map(drop));
    if total.failed > 0 { Err(Error::TestsFailed) } else { outcome }
}

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
    /// What the closing line of one test binary says; `None` for any other line.
    fn of(line: &str) -> Option<Self> {
        let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
        Some(Self { passed: count("passed")?, failed: count("failed")? })
    }

    /// What a check of a scenario says; `None` for any other line.
    pub fn of_check(line: &str) -> Option<Self> {
        match line.trim_start().split_once(' ')?.0 {
            "pass" => Some(Self { passed: 1, failed: 0 }),
            "fail" => Some(Self { passed: 0, failed: 1 }),
            _ => None,
        }
    }

    /// These counts; one failure more where there is none and yet the whole did not succeed.
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
