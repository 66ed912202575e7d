//! The project's own chores, run as `cargo xtask`.
//!
//! **Problem.** Rules that exist only in a document are broken within a month, and nobody runs a test command of five
//! steps completely. **Idea.** Style is a test ([`tidy`]) and testing is one command ([`stages`]). **Why a program.**
//! It needs only the toolchain that builds Rampart, and its rules are tested like any other code.
//!
//! Libraries: `clap` (arguments), `toml` (manifests), `serde` and `serde_json` (what cargo says of packages),
//! `displaydoc` and `thiserror` (errors).

#![forbid(unsafe_code)]

mod aarch64;
mod bare;
mod chores;
mod error;
mod files;
mod freestanding;
mod fuzz;
mod mutants;
mod package;
mod process;
mod sanitize;
mod scenarios;
mod skips;
mod stages;
mod tally;
mod tidy;
mod tree;

use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::chores::{Chore, CommandLine, Scenarios};
use crate::error::Error;
use crate::process::{cargo, run};

fn main() -> ExitCode {
    match perform(root(), CommandLine::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, Error::TestsFailed) {
                eprintln!("xtask: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn perform(root: &Path, chore: Chore) -> Result<(), Error> {
    match chore {
        Chore::Tidy { write: false } => tidy::run(root),
        Chore::Tidy { write: true } => tidy::write(root),
        Chore::Test => stages::run_all(root),
        Chore::Check => stages::run_checks(root),
        Chore::Bare { first: false, package: false } => bare::try_readme(root, bare::Extent::All),
        Chore::Bare { package: true, .. } => bare::try_readme(root, bare::Extent::Package),
        Chore::Bare { first: true, .. } => bare::try_readme(root, bare::Extent::First),
        Chore::Package { revision } => package::make(root, revision.as_deref()),
        Chore::Bench { arguments } => {
            run(cargo(root).args(["run", "--profile", "bench", "--package", "rampart-bench", "--"]).args(arguments))
        }
        Chore::Mutants { room: None } => {
            mutants::list();
            Ok(())
        }
        Chore::Mutants { room: Some(room) } => mutants::run_room(root, &room),
        Chore::Fuzz { target: None, .. } => fuzz::list(root),
        Chore::Fuzz { target: Some(target), seconds } => fuzz::run_target(root, &target, seconds),
        Chore::Qemu(Scenarios { short: true, .. }) => scenarios::short(root),
        Chore::Qemu(Scenarios { table: true, .. }) => scenarios::table(root),
        Chore::Qemu(Scenarios { patched: true, names, .. }) => scenarios::run_patched(root, &names),
        Chore::Qemu(Scenarios { names, .. }) => scenarios::run_named(root, &names),
        Chore::Aarch64 { check: true, .. } => {
            let skips = skips::Skips::begin(root)?;
            aarch64::check(root, &skips)?;
            skips.show()?.outcome()
        }
        Chore::Aarch64 { names, .. } => aarch64::run_scenarios(root, &names),
        Chore::Freestanding => freestanding::check(root, &skips::Skips::begin(root)?),
        Chore::Java => java(root),
        Chore::Sanitize => sanitize::check(root),
        Chore::Proofs => stages::proofs(root),
        Chore::Nightly => {
            let stages = [stages::proofs, sanitize::check, java, scenarios::nightly];
            stages.into_iter().map(|stage| stage(root)).chain([aarch64::run_scenarios(root, &[])]).collect()
        }
    }
}

/// Runs Java programs on the heap with failed lines.
fn java(root: &Path) -> Result<(), Error> {
    run(&mut Command::new(root.join("java/check")))?;
    run(&mut Command::new(root.join("java/conformance")))
}

/// The root of the tree that this program was built from.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root")
}
