//! The same product on another processor: aarch64.
//!
//! **Problem.** Without this check, only users of another processor notice code that works on x86-64 only. **Idea.**
//! Clippy checks the crates whose code depends on the processor, as they are compiled for aarch64; the whole product is
//! built for it, and scenarios run on an emulated machine of that kind. **Why Debian's compiler.** A compiler needs the
//! standard library of its target. If rustup has installed it, this toolchain is used; else Debian's packages have a
//! compiler with both libraries (`tests/qemu/compiler`). That compiler is newer than ours; its new lints are shown as
//! warnings only.

use std::path::{Path, PathBuf};
use std::process::Command;

use rampart_skips::{Feature, has_program};

use crate::error::Error;
use crate::files::target;
use crate::process::{cargo, output, run};
use crate::skips::Skips;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const FETCH: &str = "tests/qemu/compiler";

/// A target folder of its own: if two compilers shared one, each would rebuild what the other had built.
const FOLDER: &str = "target/aarch64";

/// The crates whose code depends on the processor. The others need C libraries that take minutes to compile.
const CHECKED: [&str; 4] = ["rampart-codes", "rampart-linux", "rampart-march", "rampart-preload"];

/// Faults of the hardware in memory under test, and below a guarded program with each engine.
const SCENARIOS: [&str; 2] = ["bad_ram", "stuck_cells"];

/// Checks the code that depends on the processor, as it is compiled for aarch64.
pub fn check(root: &Path, skips: &Skips) -> Result<(), Error> {
    match Compiler::find(root) {
        Ok(compiler) => run(&mut compiler.clippy(root)),
        Err(error) => {
            eprintln!("aarch64: skipped: {error}");
            skips.add(Feature::Aarch64, "xtask::aarch64", &error.to_string())
        }
    }
}

/// Runs scenarios on an emulated machine.
pub fn run_scenarios(root: &Path, names: &[String]) -> Result<(), Error> {
    let compiler = Compiler::find(root)?;
    let mut build = compiler.cargo(root);
    run(build.args(["build", "--package", "rampart-cli", "--package", "rampart-preload"]).args(BUILT))?;
    run(cargo(root).args(["build", "--package", "rampart-badram"]))?;
    let mut scenarios = Command::new(root.join("tests/qemu/run"));
    scenarios.current_dir(root).env("ARCHITECTURE", "aarch64").env("KERNEL", "6.12");
    scenarios.env("RAMPART", root.join(FOLDER).join(TARGET).join("debug/rampart"));
    scenarios.env("BADRAM", target(root).join("debug/badram")).env("OPTIONS", "short seconds=180");
    if names.is_empty() {
        scenarios.args(SCENARIOS)
    } else {
        scenarios.args(names)
    };
    run(&mut scenarios)
}

const BUILT: [&str; 4] = ["--target", TARGET, "--target-dir", FOLDER];

/// A compiler with the standard library of the target.
enum Compiler {
    /// The one that builds this program.
    Own,
    /// Debian's, below this folder.
    Debian(PathBuf),
}

impl Compiler {
    /// The one there is, or that can be fetched.
    fn find(root: &Path) -> Result<Self, Error> {
        if !has_program(LINKER) {
            return Err(Error::NoProgram { name: LINKER, package: "gcc-aarch64-linux-gnu" });
        }
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let library = output(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]))?;
        if Path::new(library.trim()).is_dir() {
            return Ok(Self::Own);
        }
        let folder = output(Command::new(root.join(FETCH)).current_dir(root))?;
        Ok(Self::Debian(PathBuf::from(folder.trim())))
    }

    /// Cargo, with this compiler.
    fn cargo(&self, root: &Path) -> Command {
        let mut command = cargo(root);
        self.prepare(&mut command);
        command
    }

    /// Clippy. With Debian's newer compiler, only lints that ours has too are errors.
    fn clippy(&self, root: &Path) -> Command {
        let checked = |command: &mut Command, lints: &[&str]| {
            let packages = CHECKED.iter().flat_map(|package| ["--package", package]);
            command.arg("clippy").args(packages).args(BUILT).arg("--").args(lints);
        };
        match self {
            Self::Own => {
                let mut command = self.cargo(root);
                checked(&mut command, &["-D", "warnings"]);
                command
            }
            Self::Debian(folder) => {
                let mut command = Command::new(folder.join("usr/bin/cargo-clippy"));
                command.current_dir(root).env("CARGO", cargo(root).get_program());
                self.prepare(&mut command);
                let lints = ["unused", "unfulfilled_lint_expectations", "clippy::correctness"];
                checked(&mut command, &lints.map(|lint| ["-D", lint]).concat());
                command
            }
        }
    }

    fn prepare(&self, command: &mut Command) {
        command
            .env("CC_aarch64_unknown_linux_gnu", LINKER)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        if let Self::Debian(folder) = self {
            command.env("RUSTC", folder.join("usr/bin/rustc"));
            command.env("LD_LIBRARY_PATH", folder.join("usr/lib/x86_64-linux-gnu"));
        }
    }
}
