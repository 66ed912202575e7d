//! The unit tests of unsafe code under AddressSanitizer, and threads under ThreadSanitizer.
//!
//! **Problem.** A test passes though the code reads beyond a block or after its release. **Idea.** The compiler can
//! check each access; the unit tests of each crate with unsafe code run so. **Why not Miri.** It would check the rules
//! of references too, but it cannot follow most system calls, and there is none for every toolchain: the sanitizer is
//! part of the compiler. It is unstable, so `RUSTC_BOOTSTRAP` allows unstable options.
//!
//! ThreadSanitizer finds accesses of two threads that nothing orders. The standard library is not compiled for it, so
//! locks tell their order once more (`--cfg tsan`), and what the harness alone does is left out.

use std::path::Path;

use crate::error::Error;
use crate::process::{cargo, run};

/// The crates with unsafe code whose tests run in a process of their own.
const PACKAGES: [&str; 6] =
    ["rampart-buddy", "rampart-codes", "rampart-heap", "rampart-linux", "rampart-march", "rampart-preload"];

/// Tests of the C library's heap, whose place the sanitizer takes.
const NOT_HERE: [&str; 1] = ["memory_of_the_c_library_is_the_c_librarys"];

/// With a target named, build scripts are compiled without the sanitizer.
const TARGET: &str =
    if cfg!(target_arch = "x86_64") { "x86_64-unknown-linux-gnu" } else { "aarch64-unknown-linux-gnu" };

/// Some tests fault on purpose. What the process has at its end is no leak.
const OPTIONS: &str = "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_abort=0";

/// Failures of the stress test under ThreadSanitizer, which slows it.
const FAILURES: &str = "1000";

/// Runs them.
pub fn check(root: &Path) -> Result<(), Error> {
    let mut tests = cargo(root);
    tests.args(["test", "--lib", "--no-fail-fast", "--target", TARGET, "--target-dir", "target/sanitized"]);
    tests.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    tests.arg("--").args(NOT_HERE.iter().flat_map(|test| ["--skip", test]));
    tests.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address").env("ASAN_OPTIONS", OPTIONS);
    run(&mut tests)?;
    threads(root)
}

/// Runs mutators, markers and failures on the shared heap.
fn threads(root: &Path) -> Result<(), Error> {
    let mut tests = cargo(root);
    tests.args(["test", "--package", "rampart-heap", "--test", "shared_heap", "--target", TARGET]);
    tests.args(["--target-dir", "target/sanitized-threads"]).env("RAMPART_HEAP_FAILURES", FAILURES);
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg tsan";
    let left_out = format!("suppressions={}", root.join("xtask/thread-sanitizer.txt").display());
    tests.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags).env("TSAN_OPTIONS", left_out);
    run(&mut tests)
}
