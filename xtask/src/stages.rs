//! Everything that must pass before a change is kept, in one command.
//!
//! One profile serves all stages, so each dependency is compiled at most twice: once to check, once to run.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::error::Error;
use crate::process::{cargo, run, run_read};
use crate::tally::Tally;
use crate::{freestanding, fuzz, scenarios, tidy};

/// Runs the checks, then the tests. If the tests ran, the last line gives the numbers of passed and failed ones.
pub fn run_all(root: &Path) -> Result<(), Error> {
    run_checks(root)?;
    eprintln!("== tests");
    tests(root)
}

/// Runs the stages before the tests, up to the first that fails.
pub fn run_checks(root: &Path) -> Result<(), Error> {
    type Stage = (&'static str, fn(&Path) -> Result<(), Error>);
    let stages: [Stage; 6] = [
        ("format", format),
        ("tidy", tidy::run),
        ("lints", lints),
        ("fuzz targets compile", fuzz::check),
        ("allocators without std", freestanding::check),
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
    run(cargo(root).args(["fmt", "--manifest-path", freestanding::MANIFEST, "--check"]))?;
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
    scenarios::build_short(root)?;
    thread::scope(|scope| {
        let beside = scope.spawn(|| scenarios::run_short(root));
        let mut total = Tally::default();
        let mut tests = cargo(root);
        // Many tests wait for a guard's background work: run one more at once than there are CPUs.
        let at_once = thread::available_parallelism().map_or(2, NonZero::get) + 1;
        tests.args(["test", "--workspace", "--no-fail-fast"]).env("RUST_TEST_THREADS", at_once.to_string());
        let outcome = run_read(&mut tests, |line| {
            println!("{line}");
            total += Tally::of(line).unwrap_or_default();
        });
        let checks = beside.join().unwrap_or_else(|panic| resume_unwind(panic));
        total += checks.as_ref().copied().unwrap_or_default();
        println!("\n{total}");
        // If no test failed, something else did: a test that does not compile, or that ended its whole program.
        let outcome = outcome.and_then(|()| checks.map(drop));
        if total.failed > 0 { Err(Error::TestsFailed) } else { outcome }
    })
}

/// Runs the proofs of FullestBank with both checkers of schedules, each in a folder of its own: all is compiled for it.
pub fn proofs(root: &Path) -> Result<(), Error> {
    for checker in ["loom", "shuttle"] {
        let folder = format!("target/{checker}");
        let arguments = ["test", "--release", "--package", "rampart-buddy", "--lib", "--target-dir", &folder, checker];
        run(cargo(root).args(arguments).env("RUSTFLAGS", format!("--cfg {checker}")))?;
    }
    Ok(())
}
