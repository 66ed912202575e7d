//! The fuzz targets: a workspace of their own, because they are built otherwise, by `cargo fuzz` with the address
//! sanitizer.
//!
//! That sanitizer is an unstable option, which the pinned compiler has, too: it takes it where it is told to be one of
//! the compilers that bootstrap Rust. So what is fuzzed is what is shipped, and no second toolchain is needed.

use std::path::Path;
use std::{env, fs};

use crate::error::Error;
use crate::process::{cargo, run};
use crate::tree::Tree;

/// Of the fuzz targets' workspace.
pub const MANIFEST: &str = "fuzz/Cargo.toml";

/// Checks that all targets still fit the crates that they feed, without the C++ compiler that linking them takes.
pub fn check(root: &Path) -> Result<(), Error> {
    let mut clippy = cargo(root);
    clippy.args(["clippy", "--manifest-path", MANIFEST, "--bins", "--", "-D", "warnings"]);
    // In the main workspace's folder, where most of the dependencies are compiled already.
    clippy.env("CARGO_TARGET_DIR", env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    // libfuzzer-sys compiles libFuzzer unless it is told where a finished one is. Nothing is linked here, so nothing is
    // read.
    clippy.env("CUSTOM_LIBFUZZER_PATH", "/unused/libfuzzer.a");
    run(&mut clippy)
}

/// Prints the targets.
pub fn list(root: &Path) -> Result<(), Error> {
    targets(&Tree::read(root)?).for_each(|target| println!("{target}"));
    Ok(())
}

/// Feeds one target for so many seconds, from its seeds and from what earlier runs found worth keeping.
pub fn run_target(root: &Path, target: &str, seconds: &str) -> Result<(), Error> {
    if !targets(&Tree::read(root)?).any(|known| known == target) {
        return Err(Error::NoFuzzTarget(target.to_owned()));
    }
    let found = format!("fuzz/corpus/{target}");
    fs::create_dir_all(root.join(&found)).map_err(|cause| Error::Write { path: root.join(&found), cause })?;
    let mut fuzz = cargo(root);
    fuzz.args(["fuzz", "run", target, &found, &format!("fuzz/seeds/{target}")]);
    fuzz.args(["--", &format!("-max_total_time={seconds}")]);
    run(fuzz.env("RUSTC_BOOTSTRAP", "1"))
}

fn targets(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.rust().filter_map(|(path, _)| path.strip_prefix("fuzz/targets/")?.strip_suffix(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_the_targets_folder_is_a_target() {
        let tree = Tree::from([("fuzz/targets/size.rs", ""), ("fuzz/targets/README.md", ""), ("fuzz/src/lib.rs", "")]);
        assert_eq!(targets(&tree).collect::<Vec<_>>(), ["size"]);
    }
}
