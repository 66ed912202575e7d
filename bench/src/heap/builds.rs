//! Builds the programs of `bench/heap`, with other settings for each comparison.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Begins each block of code that only a jump reaches at the start of a cache line, so that the state *failed* moves as
/// little of the other code as may be: `bench heap cost` looks for 1 % of time.
const ALIGNED: &str = "-C llvm-args=-align-all-nofallthru-blocks=6";

/// What a program is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapBuild {
    /// Our heap and MMTk.
    WithPeers,
    /// Our heap only.
    Ours,
    /// Our heap only, without the state *failed*.
    OursUnfailing,
}

impl HeapBuild {
    const fn folder(self) -> &'static str {
        match self {
            Self::WithPeers => "peers",
            Self::Ours => "ours",
            Self::OursUnfailing => "unfailing",
        }
    }

    /// Builds it; returns the program.
    ///
    /// # Errors
    /// If cargo fails, as it does without the sources of MMTk and without a network.
    pub fn build(self) -> Result<PathBuf, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = root.join("../target/heap-bench").join(self.folder());
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root.join("heap")).args(["build", "--release", "--quiet", "--target-dir"]).arg(&target);
        if self != Self::WithPeers {
            cargo.arg("--no-default-features");
        }
        match self {
            Self::Ours => cargo.env("RUSTFLAGS", ALIGNED),
            Self::OursUnfailing => cargo.env("RUSTFLAGS", format!("{ALIGNED} --cfg rampart_no_failures")),
            Self::WithPeers => cargo.env_remove("RUSTFLAGS"),
        };
        let ended = cargo.status().map_err(|error| format!("cargo: {error}"))?;
        let program = target.join("release/rampart-heap-bench");
        if ended.success() { Ok(program) } else { Err("bench/heap does not build".to_owned()) }
    }
}
