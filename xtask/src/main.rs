//! The project's own chores, run as `cargo xtask`.
//!
//! **Problem.** Rules that exist only in a document are broken within a month, and nobody runs a test command of five
//! steps completely. **Idea.** Style is a test ([`tidy`]) and testing is one command ([`stages`]). **Why a program.**
//! It needs only the toolchain that builds Rampart, and its rules are tested like any other code.
//!
//! Libraries: `toml` (manifests), `serde` and `serde_json` (what cargo says of packages), `displaydoc` and `thiserror`
//! (errors).

#![forbid(unsafe_code)]

mod bare;
mod error;
mod files;
mod freestanding;
mod fuzz;
mod mutants;
mod package;
mod process;
mod scenarios;
mod skips;
mod stages;
mod tally;
mod tidy;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use crate::error::Error;
use crate::process::{cargo, run};

const USAGE: &str = "usage: cargo xtask COMMAND

  tidy                   hold the tree to its rules: layers, rooms, unsafe, names, map, promises, citations, …
  tidy --write           write the parts of ARCHITECTURE.md that the rules own
  test                   everything that must pass: format, lints, tidy, documents, tests; what is skipped is listed
                         and counted, and is a failure where CI=true and .ci/required-features lists it
  check                  the same without the tests
  bare                   README's commands, and the package, on a bare Debian root; needs root and debootstrap
  bare --first           only the first command
  bare --package         the first command, and the package
  package [REVISION]     a package for Debian with man pages, units and completions; needs debhelper; DEBFULLNAME
                         and DEBEMAIL name who packs
  bench [NAME [ARGS]]    one bench, optimized; without a name, which there are
  mutants [ROOM]         which mutations of a room no test notices, and no list explains; needs cargo-mutants
  fuzz [TARGET [TIME]]   one fuzz target for so many seconds (60); without a target, which there are
  qemu [SCENARIO]        scenarios on a Linux kernel of their own (all); needs qemu-system-x86_64
  qemu --short           those that are part of `test`, with the binaries of the tests
  qemu --patched [NAME]  scenarios (all of the kernel module) on a kernel that is built with kernel/patches
  qemu --table           what four testers find of faults from outside, and after how long, as a Markdown table
  freestanding           the page allocators without std, alloc and a C library, built and run
  proofs                 FullestBank in every schedule of few threads (loom), and in many of more (shuttle)
  nightly                the proofs, then all scenarios on each of the two kernels, and the table";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match perform(root(), &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::TestsFailed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(if matches!(error, Error::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn perform(root: &Path, words: &[&str]) -> Result<(), Error> {
    match words {
        ["tidy"] => tidy::run(root),
        ["tidy", "--write"] => tidy::write(root),
        ["test"] => stages::run_all(root),
        ["check"] => stages::run_checks(root),
        ["bare"] => bare::try_readme(root, bare::Extent::All),
        ["bare", "--package"] => bare::try_readme(root, bare::Extent::Package),
        ["bare", "--first"] => bare::try_readme(root, bare::Extent::First),
        ["package"] => package::make(root, None),
        ["package", revision] => package::make(root, Some(revision)),
        ["bench", arguments @ ..] => {
            run(cargo(root).args(["run", "--profile", "bench", "--package", "rampart-bench", "--"]).args(arguments))
        }
        ["mutants"] => {
            mutants::list();
            Ok(())
        }
        ["mutants", room] => mutants::run_room(root, room),
        ["fuzz"] => fuzz::list(root),
        ["fuzz", target] => fuzz::run_target(root, target, "60"),
        ["fuzz", target, seconds] => fuzz::run_target(root, target, seconds),
        ["qemu", "--short"] => scenarios::short(root),
        ["qemu", "--table"] => scenarios::table(root),
        ["qemu", "--patched", names @ ..] => scenarios::run_patched(root, names),
        ["qemu", names @ ..] => scenarios::run_named(root, names),
        ["freestanding"] => freestanding::check(root, &skips::Skips::begin(root)?),
        ["proofs"] => stages::proofs(root),
        ["nightly"] => stages::proofs(root).and_then(|()| scenarios::nightly(root)),
        _ => Err(Error::Usage(USAGE)),
    }
}

/// The root of the tree that this program was built from.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root")
}
