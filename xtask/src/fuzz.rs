//! The fuzz targets: a separate workspace, because `cargo fuzz` builds them with the address sanitizer.
//!
//! That sanitizer is an unstable option. The pinned compiler has it too, and accepts it when it runs as one of the
//! compilers that bootstrap Rust. So the fuzzed code is the shipped code, and no second toolchain is needed.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::process::{cargo, clippy_of, run};
use crate::tree::Tree;

/// The manifest of the fuzz targets' workspace.
pub const MANIFEST: &str = "fuzz/Cargo.toml";

/// Checks that all targets still compile, without the C++ compiler that linking them needs.
pub fn check(root: &Path) -> Result<(), Error> {
    let mut clippy = clippy_of(root, MANIFEST);
    clippy.args(["--bins", "--", "-D", "warnings"]);
    // libfuzzer-sys compiles libFuzzer unless it is given the path of a finished one. Nothing is linked here, so
    // nothing is read.
    clippy.env("CUSTOM_LIBFUZZER_PATH", "/unused/libfuzzer.a");
    run(&mut clippy)
}

/// Prints the targets.
pub fn list(root: &Path) -> Result<(), Error> {
    targets(&Tree::read(root)?).for_each(|target| println!("{target}"));
    Ok(())
}

/// Runs one target for this many seconds, from its seeds and from the useful inputs of earlier runs.
pub fn run_target(root: &Path, target: &str, seconds: u64) -> Result<(), Error> {
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
