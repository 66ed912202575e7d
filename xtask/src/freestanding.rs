//! The page allocators without an operating system: built without `std`, without `alloc` and without a C library.
//!
//! The program of `tests/freestanding` is built for this machine, and run. Where the compiler's library for a target
//! without an operating system is installed, the allocators are built for that target too.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::process::{cargo, output, run};

/// The manifest of the program's workspace.
pub const MANIFEST: &str = "tests/freestanding/Cargo.toml";

const TARGET: &str = "x86_64-unknown-none";
const BUILT: [&str; 2] = ["--target-dir", "target/freestanding"];

/// Checks, builds and runs.
pub fn check(root: &Path) -> Result<(), Error> {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("freestanding: skipped, for its start code is for x86-64 only");
        return Ok(());
    }
    run(cargo(root).args(["clippy", "--manifest-path", MANIFEST]).args(BUILT).args(["--", "-D", "warnings"]))?;
    run(cargo(root).args(["run", "--manifest-path", MANIFEST]).args(BUILT))?;
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    if has_target(&installed) {
        let library = ["build", "--package", "rampart-buddy", "--lib", "--no-default-features", "--target", TARGET];
        return run(cargo(root).args(library).args(BUILT));
    }
    eprintln!("freestanding: not built for {TARGET}, which is not installed: rustup target add {TARGET}");
    Ok(())
}

fn has_target(installed: &str) -> bool {
    installed.lines().any(|line| line.trim() == TARGET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_installed_if_rustup_lists_it() {
        assert!(has_target("x86_64-unknown-linux-gnu\nx86_64-unknown-none\n"));
        assert!(!has_target("x86_64-unknown-linux-gnu\nx86_64-unknown-none-softfloat\n") && !has_target(""));
    }
}
