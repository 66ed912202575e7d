//! Builds the library that `rampart run` preloads into the optimized binary.
//!
//! **Problem.** The binary and the library are two files, and a binary that is copied elsewhere has lost the other one.
//! **Idea.** The binary carries the library. **Why by a second cargo.** A package cannot ask for another one's shared
//! library, but as an unstable feature; and the first cargo holds the lock of its folder. Unoptimized binaries carry
//! nothing: the tests build the library beside them, once.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "rampart-preload";
const FILE: &str = "librampart_preload.so";

fn main() {
    for input in ["build.rs", "../preload", "../guard", "../linux", "../memory", "../march", "../codes"] {
        println!("cargo::rerun-if-changed={input}");
    }
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let carried = variable("OUT_DIR").join(FILE);
    if env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        build(&carried);
    } else {
        fs::write(&carried, []).expect("cargo's own folder can be written");
    }
}

fn variable(name: &str) -> PathBuf {
    env::var_os(name).map(PathBuf::from).unwrap_or_else(|| panic!("cargo sets {name}"))
}

/// For the same machine and with the same flags as the binary.
fn build(carried: &Path) {
    let (folder, target) = (variable("OUT_DIR").join("preload"), variable("TARGET"));
    let built = Command::new(variable("CARGO"))
        .args(["build", "--release", "--package", PACKAGE, "--lib"])
        .arg("--target-dir")
        .arg(&folder)
        .arg("--target")
        .arg(&target)
        .current_dir(variable("CARGO_MANIFEST_DIR").join("../preload"))
        // Clippy and the like look at the packages that they were called for.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status();
    assert!(built.is_ok_and(|status| status.success()), "{PACKAGE} could not be built: cargo says above why");
    let library = folder.join(target).join("release").join(FILE);
    fs::copy(&library, carried).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
}
