//! Finds the header of xxHash, which becomes part of a C library that is built on the user's machine. The crate of that
//! name has it among its sources, but does not say where: cargo does.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn main() {
    let header = folder_of("xxhash-c-sys").join("src/c/xxhash.h");
    println!("cargo:rustc-env=RAMPART_XXHASH={}", header.display());
    println!("cargo:rerun-if-changed={}", header.display());
}

/// Returns the folder with the sources of a dependency of ours.
fn folder_of(dependency: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").expect("cargo runs this");
    let asked = ["metadata", "--format-version", "1", "--locked"];
    let output = Command::new(cargo).args(asked).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let package = packages.iter().find(|package| package["name"] == dependency).expect("it is a dependency");
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    manifest.parent().expect("a file is in a folder").to_owned()
}
