//! What tests skip.
//!
//! **Problem.** A test that lacks something says so and passes, and the test runner hides what a passing test says: a
//! machine without an MPI runs a third of the tests, and nobody sees it. **Idea.** A test names the [`Feature`] that
//! it lacks and calls [`skip`], which also appends a line to the file that `RAMPART_SKIPS` names. `cargo xtask test`
//! counts these lines; what `.ci/required-features` lists may not be skipped in CI. **Why a feature.** A count by
//! feature says what to install.
//!
//! The function under test is never asked whether its feature is there: what it refuses wrongly would then be skipped
//! for ever. [`granted`] asks [`lacks`] instead, which reads `/proc` and `/sys`, and fails the test if nothing is
//! lacking.

#![forbid(unsafe_code)]

mod feature;
mod machine;
mod record;

pub use feature::Feature;
pub use machine::{has_program, is_root, lacks};
pub use record::{Skip, VARIABLE};

use std::fmt::Display;

/// Says that this test, or a part of it, is skipped for lack of a feature.
///
/// # Panics
/// If the file of skips cannot be written: a skip is never lost.
pub fn skip(feature: Feature, why: impl Display) {
    println!("skipped: {feature}: {why}");
    if let Some(file) = std::env::var_os(VARIABLE) {
        let skip = Skip::new(feature, &record::this_test(), &why.to_string());
        skip.append_to(file.as_ref()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// What was granted, or `None` if it was refused on a machine that lacks one of the features: then the test is skipped.
///
/// # Panics
/// If the machine has all of them, so that nothing excuses the refusal.
pub fn granted<T, E: Display>(features: &[Feature], outcome: Result<T, E>) -> Option<T> {
    let refusal = match outcome {
        Ok(granted) => return Some(granted),
        Err(refusal) => refusal,
    };
    let lacking = features.iter().find_map(|feature| Some((*feature, lacks(*feature)?)));
    let (feature, why) = lacking.unwrap_or_else(|| panic!("the machine has {features:?}, and yet: {refusal}"));
    skip(feature, format!("{why} ({refusal})"));
    None
}

/// Whether a program is on the path; if not, the test is skipped.
#[must_use]
pub fn installed(program: &str, feature: Feature) -> bool {
    let there = has_program(program);
    if !there {
        skip(feature, format!("{program} is not installed"));
    }
    there
}

/// Whether this processor has all of these flags of `/proc/cpuinfo`; if not, the test is skipped for the instructions.
#[must_use]
pub fn cpu_has(instructions: &str, flags: &[&str]) -> bool {
    let lacking = machine::lacking_cpu_flag(flags);
    if let Some(flag) = lacking {
        skip(Feature::CpuInstructions, format!("{instructions}: this processor lacks {flag}"));
    }
    lacking.is_none()
}

/// Whether this is root; if not, the test is skipped.
#[must_use]
pub fn root(what_for: &str) -> bool {
    let root = is_root();
    if !root {
        skip(Feature::Root, what_for);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_is_used() {
        assert_eq!(granted(&[Feature::UserfaultfdMove], Ok::<_, &str>(7)), Some(7));
    }

    #[test]
    #[should_panic(expected = "the machine has [], and yet: no")]
    fn a_refusal_that_nothing_excuses_fails() {
        granted(&[], Err::<(), _>("no"));
    }
}
