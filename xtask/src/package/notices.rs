//! The notices of the libraries in the binary and in the guard's library: their licences ask that they go with it.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::error::Error;
use crate::process::{cargo, output};

/// The two packages that are shipped.
const SHIPPED: [&str; 4] = ["--package", "rampart-cli", "--package", "rampart-preload"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: String,
    source: Option<String>,
}

/// One section for each library: its name, version and licence, and the files in which it states them.
pub fn of(tree: &Path) -> Result<String, Error> {
    let read = output(cargo(tree).args(["metadata", "--format-version", "1"]))?;
    let metadata: Metadata = serde_json::from_str(&read).map_err(Error::Metadata)?;
    let names = ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let shipped = output(cargo(tree).args(names).args(SHIPPED))?;
    let mut packages: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_some() && is_among(&shipped, &package.name, &package.version))
        .collect();
    packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(packages.into_iter().map(notice).collect())
}

/// Whether the output of `cargo tree` has a line for this version of a package.
fn is_among(shipped: &str, name: &str, version: &str) -> bool {
    let line = format!("{name} v{version}");
    shipped.lines().any(|shown| shown.strip_prefix(&line).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
}

fn notice(package: &Package) -> String {
    let licence = package.license.as_deref().unwrap_or("see below");
    let place = package.repository.as_deref().unwrap_or("https://crates.io");
    let mut text = format!("{} {}\nlicence: {licence}\nsource: {place}\n", package.name, package.version);
    for file in files(Path::new(&package.manifest_path).parent().expect("a manifest is in a folder")) {
        text += &format!("\n{}\n", file.trim());
    }
    text + "\n" + &"=".repeat(80) + "\n\n"
}

/// The texts of files such as LICENSE-MIT, COPYING and NOTICE.
fn files(folder: &Path) -> Vec<String> {
    let is_stated = |name: &str| ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|one| name.starts_with(one));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| is_stated(&name.to_uppercase())))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_what_cargo_tree_shows() {
        let shipped = "libc v0.2.1\nserde v1.0.2 (*)\nrampart v0.1.0 (/x)\n";
        assert!(is_among(shipped, "libc", "0.2.1"));
        assert!(is_among(shipped, "serde", "1.0.2"));
        assert!(!is_among(shipped, "serde", "1.0.20"), "another version");
        assert!(!is_among(shipped, "serde", "1.0"), "no whole version");
        assert!(!is_among(shipped, "clap", "4.0.0"));
    }
}
