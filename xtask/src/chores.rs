//! The command line.

use clap::{Args, Parser, Subcommand};

/// The project's own chores
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub chore: Chore,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub enum Chore {
    /// Hold the tree to its rules: layers, rooms, unsafe, names, map, promises, citations, …
    Tidy {
        /// Write the parts of ARCHITECTURE.md that the rules own
        #[arg(long)]
        write: bool,
    },
    /// Everything that must pass: format, lints, tidy, documents, tests
    ///
    /// What is skipped is listed and counted, and is a failure where CI=true and .ci/required-features lists it.
    Test,
    /// The same without the tests
    Check,
    /// README's commands, and the package, on a bare Debian root; needs root and debootstrap
    Bare {
        /// Only the first command
        #[arg(long, conflicts_with = "package")]
        first: bool,
        /// The first command, and the package
        #[arg(long)]
        package: bool,
    },
    /// A package for Debian with man pages, units and completions; needs debhelper
    ///
    /// DEBFULLNAME and DEBEMAIL name who packs.
    Package {
        /// Debian's number of the package's version
        revision: Option<String>,
    },
    /// One bench, optimized; without a name, which there are
    Bench {
        /// Its name, and its own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Which mutations of a room no test notices, and no list explains; needs cargo-mutants
    Mutants {
        /// The room; without it, which there are
        room: Option<String>,
    },
    /// One fuzz target; without it, which there are
    Fuzz {
        target: Option<String>,
        /// For so many seconds
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
    /// Scenarios on a Linux kernel of their own; needs qemu-system-x86_64
    Qemu(Scenarios),
    /// Scenarios on an emulated aarch64; needs qemu-system-aarch64 and gcc-aarch64-linux-gnu
    Aarch64 {
        /// Only clippy over what depends on the processor, which is part of `check`
        #[arg(long, conflicts_with = "names")]
        check: bool,
        /// The scenarios; without names, two
        names: Vec<String>,
    },
    /// The page allocators without std, alloc and a C library, built and run
    Freestanding,
    /// Java programs on the heap with failed lines, beside HotSpot (needs a JDK, Maven and npm)
    Java,
    /// Unit tests of unsafe code under AddressSanitizer, and threads on the shared heap under ThreadSanitizer
    Sanitize,
    /// `FullestBank` in every schedule of few threads (loom), and in many of more (shuttle), as the shared heap
    Proofs,
    /// The proofs, the sanitizer, Java programs, all scenarios on each of the two kernels, the table, and the scenarios
    /// on aarch64
    Nightly,
}

/// Which scenarios.
#[derive(Args, Debug)]
pub struct Scenarios {
    /// Those that are part of `test`, with the binaries of the tests
    #[arg(long, conflicts_with_all = ["patched", "table", "names"])]
    pub short: bool,
    /// On a kernel that is built with kernel/patches; without names, all of the kernel module
    #[arg(long, conflicts_with = "table")]
    pub patched: bool,
    /// What four testers find of faults from outside, and after how long, as a Markdown table
    #[arg(long, conflicts_with = "names")]
    pub table: bool,
    /// The scenarios; without names, all
    pub names: Vec<String>,
}
