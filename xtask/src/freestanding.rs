//! The page allocators without an operating system: built without `std`, without `alloc` and without a C library.
//!
//! The program of `tests/freestanding` is built for this machine, run as a process, and booted as the only software of
//! an emulated machine. Where the compiler's library for a target without an operating system is installed, the
//! allocators are built for that target too.

use std::path::Path;
use std::process::{Command, Stdio};

use rampart_skips::{Feature, has_program};

use crate::error::Error;
use crate::process::{cargo, output, run, run_to_status};
use crate::skips::Skips;

/// The manifest of the program's workspace.
pub const MANIFEST: &str = "tests/freestanding/Cargo.toml";

const PROGRAM: &str = "target/freestanding/debug/freestanding";
const TARGET: &str = "x86_64-unknown-none";
const BUILT: [&str; 2] = ["--target-dir", "target/freestanding"];
const EMULATOR: &str = "qemu-system-x86_64";
const MACHINE: &str = "-m 64 -nodefaults -display none -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=4";

/// What the emulator ends with if the program's status is 0 (`start.s`).
const SUCCESS: i32 = 33;

/// Checks, builds and runs.
pub fn check(root: &Path, skips: &Skips) -> Result<(), Error> {
    let skip = |feature: Feature, what: &str| {
        eprintln!("freestanding: skipped: {what}");
        skips.add(feature, "xtask::freestanding", what)
    };
    if cfg!(not(target_arch = "x86_64")) {
        return skip(Feature::X86, "its start code is for x86-64 only");
    }
    run(cargo(root).args(["clippy", "--manifest-path", MANIFEST]).args(BUILT).args(["--", "-D", "warnings"]))?;
    run(cargo(root).args(["run", "--manifest-path", MANIFEST]).args(BUILT))?;
    if has_program(EMULATOR) {
        boot(root)?;
    } else {
        skip(Feature::Qemu, &format!("not booted, for there is no {EMULATOR}"))?;
    }
    let installed = output(Command::new("rustup").args(["target", "list", "--installed"])).unwrap_or_default();
    if has_target(&installed) {
        let library = ["build", "--package", "rampart-buddy", "--lib", "--no-default-features", "--target", TARGET];
        return run(cargo(root).args(library).args(BUILT));
    }
    let what = format!("not built for {TARGET}, which is not installed: rustup target add {TARGET}");
    skip(Feature::BareTarget, &what)
}

/// Boots the program. A machine that hangs is ended after two minutes.
fn boot(root: &Path) -> Result<(), Error> {
    let mut machine = Command::new("timeout");
    machine.current_dir(root).stdin(Stdio::null()).args(["120", EMULATOR, "-kernel", PROGRAM]);
    run_to_status(machine.args(MACHINE.split(' ')), SUCCESS)
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
