//! Everything that must pass before a change is kept, in one command.
//!
//! One profile serves all stages, so each dependency is compiled at most twice: once to check, once to run.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use rampart_skips::{Feature, VARIABLE, has_program};

use crate::error::Error;
use crate::process::{cargo, clippy_of, run, run_read};
use crate::skips::Skips;
use crate::tally::Tally;
use crate::{aarch64, freestanding, fuzz, scenarios, tidy};

/// The manifest of the programs that run on our heap and on MMTk's collectors.
const HEAP_PROGRAMS: &str = "bench/heap/Cargo.toml";

/// Workspaces of their own, beside the main one.
const OTHER_WORKSPACES: [&str; 5] =
    [freestanding::MANIFEST, fuzz::MANIFEST, HEAP_PROGRAMS, "java/copying/Cargo.toml", "java/host/Cargo.toml"];

/// Runs the checks, then the tests. If the tests ran, the last line gives the numbers of those that passed, failed and
/// were skipped.
pub fn run_all(root: &Path) -> Result<(), Error> {
    let skips = Skips::begin(root)?;
    checks(root, &skips)?;
    eprintln!("== tests");
    tests(root, &skips)
}

/// Runs the stages before the tests, up to the first that fails.
pub fn run_checks(root: &Path) -> Result<(), Error> {
    let skips = Skips::begin(root)?;
    checks(root, &skips)?;
    skips.show()?.outcome()
}

fn checks(root: &Path, skips: &Skips) -> Result<(), Error> {
    type Stage<'a> = (&'static str, &'a dyn Fn(&Path) -> Result<(), Error>);
    let stages: [Stage<'_>; 10] = [
        ("format", &format),
        ("tidy", &tidy::run),
        ("lints", &lints),
        ("lints for aarch64", &|root| aarch64::check(root, skips)),
        ("fuzz targets compile", &fuzz::check),
        ("heap benchmarks compile", &heap_programs),
        ("pins of wasmtime", &pins),
        ("libraries", &|root| libraries(root, skips)),
        ("allocators without std", &|root| freestanding::check(root, skips)),
        ("documents", &documents),
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
    OTHER_WORKSPACES
        .iter()
        .try_for_each(|manifest| run(cargo(root).args(["fmt", "--manifest-path", manifest, "--check"])))
}

fn lints(root: &Path) -> Result<(), Error> {
    run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Without MMTk, which takes minutes to compile: `cargo xtask bench heap` compiles it.
fn heap_programs(root: &Path) -> Result<(), Error> {
    let clippy = &mut clippy_of(root, HEAP_PROGRAMS);
    run(clippy.args(["--no-default-features", "--all-targets", "--", "-D", "warnings"]))
}

/// The files of wasmtime that `java/` replaces: its build takes minutes, and so does what it fetches for Java.
fn pins(root: &Path) -> Result<(), Error> {
    run(Command::new(root.join("java/build")).arg("pins"))
}

/// Licences and sources of the libraries (`deny.toml`).
fn libraries(root: &Path, skips: &Skips) -> Result<(), Error> {
    if !has_program("cargo-deny") {
        return skips.add(Feature::CargoDeny, "xtask::libraries", "not checked: cargo install cargo-deny");
    }
    run(cargo(root).args(["deny", "check", "licenses", "bans", "sources"]))
}

fn documents(root: &Path) -> Result<(), Error> {
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    run(cargo(root).args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests(root: &Path, skips: &Skips) -> Result<(), Error> {
    scenarios::build_short(root)?;
    thread::scope(|scope| {
        let beside = scope.spawn(|| scenarios::run_short(root, skips));
        let mut total = Tally::default();
        let mut tests = cargo(root);
        // Many tests wait for a guard's background work: run one more at once than there are CPUs.
        let at_once = thread::available_parallelism().map_or(2, NonZero::get) + 1;
        tests.args(["test", "--workspace", "--no-fail-fast"]).env("RUST_TEST_THREADS", at_once.to_string());
        tests.env(VARIABLE, skips.file());
        let outcome = run_read(&mut tests, |line| {
            println!("{line}");
            total += Tally::of(line).unwrap_or_default();
        });
        let checks = beside.join().unwrap_or_else(|panic| resume_unwind(panic));
        total += checks.as_ref().copied().unwrap_or_default();
        // If no test failed, something else did: a test that does not compile, or that ended its whole program.
        skips.close(total).and(outcome).and(checks.map(drop))
    })
}

/// Runs what checkers of schedules prove, each in a folder of its own: all is compiled for it.
pub fn proofs(root: &Path) -> Result<(), Error> {
    for (checker, package) in [("loom", "rampart-buddy"), ("shuttle", "rampart-buddy"), ("shuttle", "rampart-heap")] {
        let folder = format!("target/{checker}");
        let arguments = ["test", "--release", "--package", package, "--lib", "--target-dir", &folder, checker];
        run(cargo(root).args(arguments).env("RUSTFLAGS", format!("--cfg {checker}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What `java/build pins` says in a tree in which one file has another word; `None` if it passes.
    fn refusal(file: &str, word: &str, instead: &str) -> Option<String> {
        let (root, copy) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), tempfile::tempdir().unwrap());
        for name in ["java/build", "java/host/Cargo.toml", "java/copying/Cargo.toml"] {
            let (from, to) = (root.join(name), copy.path().join(name));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&from, &to).unwrap();
            if name == file {
                let text = fs::read_to_string(&from).unwrap();
                assert!(text.contains(word), "{file} has {word}");
                fs::write(&to, text.replacen(word, instead, 1)).unwrap();
            }
        }
        std::os::unix::fs::symlink(root.join("java/wasmtime"), copy.path().join("java/wasmtime")).unwrap();
        let output = Command::new(copy.path().join("java/build")).arg("pins").output().unwrap();
        (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
    }

    #[test]
    fn another_version_of_wasmtime_is_refused_and_so_are_other_files_of_it() {
        assert_eq!(refusal("java/build", "set -eu", "set -eu"), None, "nothing has changed");
        for manifest in ["java/host/Cargo.toml", "java/copying/Cargo.toml"] {
            let said = refusal(manifest, "\"=48.", "\"=49.").expect("its version has no files here");
            assert!(said.contains(&format!("{manifest} names another version of wasmtime")), "{said}");
        }
        for (sum, of) in [("wasmtime_sum=7", "copying.rs"), ("regions_sum=0", "src/alias_region.rs")] {
            let said = refusal("java/build", sum, &sum.replace('=', "=f")).expect("a file differs");
            assert!(said.contains(of) && said.contains("than java/ was written for"), "{said}");
        }
    }
}
