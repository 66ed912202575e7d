//! Dependencies point down.
//!
//! Only a crate's regular dependencies count: its tests may use anything.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Violation;
use crate::tree::Tree;

/// The layers from the top down, and the folders of each. A crate may import those of lower layers only; proof stands
/// beside the others and may import all.
pub const LAYERS: [(&str, &[&str]); 7] = [
    (
        PROOF,
        &[
            "bench",
            "bench/heap",
            "fuzz",
            "tests/freestanding",
            "tests/qemu/badram",
            "tests/redmpi",
            "tests/skips",
            "tests/trials",
            "xtask",
        ],
    ),
    ("face", &["crates/heap-c", "crates/rampart", "java/copying", "java/host"]),
    ("studies", &["crates/studies"]),
    (
        "systems",
        &["crates/banks", "crates/diagnostic", "crates/guard", "crates/heap", "crates/preload", "crates/scale"],
    ),
    ("parts", &["crates/march", "crates/codes", "crates/buddy", "crates/sim"]),
    ("platform", &["crates/linux", "crates/native-build", "crates/store"]),
    ("words", &["crates/memory"]),
];

pub const PROOF: &str = "proof";

/// Pairs inside one layer where the first may import the second.
pub const SIDEWAYS: [(&str, &str); 2] = [("crates/sim", "crates/buddy"), ("crates/preload", "crates/guard")];

/// Each crate has a place in [`LAYERS`], and imports only crates below it.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut manifests = BTreeMap::new();
    let named = std::iter::once(("", tree.text("Cargo.toml").unwrap_or_default())).chain(tree.crates());
    for (folder, text) in named {
        match text.parse::<Table>() {
            Ok(manifest) => drop(manifests.insert(folder, manifest)),
            Err(error) => violations.push(Violation::new(manifest_path(folder), error.message())),
        }
    }
    let folders: BTreeMap<&str, &str> =
        manifests.iter().filter_map(|(&folder, manifest)| Some((package_name(manifest)?, folder))).collect();
    let workspace = manifests.get("").and_then(|root| root.get("workspace")?.get("dependencies"));
    for (&folder, manifest) in manifests.iter().filter(|(folder, _)| !folder.is_empty()) {
        if layer(folder).is_none() {
            let what = "this crate has no layer: give it one in xtask/src/tidy/layers.rs and in ARCHITECTURE.md";
            violations.push(Violation::new(manifest_path(folder), what));
        }
        let named = dependencies(manifest).filter_map(|(key, value)| folders.get(package(key, value, workspace)));
        let forbidden = named.filter(|below| !may_name(folder, below));
        violations.extend(forbidden.map(|other| Violation::new(manifest_path(folder), refusal(folder, other))));
    }
    violations
}

pub fn manifest_path(folder: &str) -> String {
    if folder.is_empty() { "Cargo.toml".to_owned() } else { format!("{folder}/Cargo.toml") }
}

fn package_name(manifest: &Table) -> Option<&str> {
    manifest.get("package")?.get("name")?.as_str()
}

fn layer(folder: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, folders)| folders.contains(&folder))
}

/// Whether the crate in one folder may import the one in another. A crate without a layer gets that message only.
fn may_name(above: &str, below: &str) -> bool {
    let (Some(from), Some(to)) = (layer(above), layer(below)) else { return true };
    LAYERS[from].0 == PROOF || from < to || SIDEWAYS.contains(&(above, below))
}

fn refusal(from: &str, to: &str) -> String {
    let name = |folder| layer(folder).map_or("?", |layer| LAYERS[layer].0);
    if layer(from) == layer(to) {
        format!("{from} names {to} beside it: crates of one layer ({}) do not name each other", name(from))
    } else {
        format!("{from} ({}) names {to} ({}) above it: layers point down", name(from), name(to))
    }
}

/// The crate's dependencies, on any target.
pub fn dependencies(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    let per_target = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let targets = per_target.filter_map(|(_, target)| target.as_table());
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .filter_map(|table| table?.as_table())
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// The package that a dependency means: a manifest may give it another name, and so may the workspace.
pub fn package<'a>(key: &'a str, value: &'a Value, workspace: Option<&'a Value>) -> &'a str {
    let renamed = |value: &'a Value| value.get("package")?.as_str();
    renamed(value).or_else(|| workspace?.get(key).and_then(renamed)).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    /// A tree of crates, each a folder and what its manifest says after its name.
    fn tree<const N: usize>(crates: [(&str, &str); N]) -> Tree {
        Tree::from(crates.map(|(folder, rest)| {
            let name = folder.rsplit('/').next().unwrap();
            (format!("{folder}/Cargo.toml"), format!("package.name = 'rampart-{name}'\n{rest}"))
        }))
    }

    #[test]
    fn crates_that_name_what_lies_below_pass() {
        let tree = tree([
            ("crates/memory", ""),
            ("crates/linux", "dependencies.rampart-memory.workspace = true"),
            ("crates/march", "dependencies.rampart-linux.workspace = true"),
            ("crates/buddy", ""),
            ("crates/sim", "dependencies.rampart-buddy.path = '../buddy'\ndependencies.serde = '1'"),
            ("crates/diagnostic", "dependencies.rampart-march = {}\ndependencies.rampart-memory = {}"),
            ("crates/rampart", "dependencies.rampart-diagnostic = {}"),
            ("bench", "dependencies.rampart-rampart = {}\ndependencies.rampart-xtask = {}"),
            ("xtask", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_crate_that_names_one_above_fails() {
        let tree = tree([
            ("crates/march", "dependencies.rampart-diagnostic = {}"),
            ("crates/diagnostic", "dependencies.rampart-bench = {}"),
            ("bench", ""),
        ]);
        assert_eq!(
            lines(&check(&tree)),
            [
                "crates/diagnostic/Cargo.toml: crates/diagnostic (systems) names bench (proof) above it: layers point down",
                "crates/march/Cargo.toml: crates/march (parts) names crates/diagnostic (systems) above it: layers point down",
            ]
        );
    }

    #[test]
    fn a_crate_that_names_one_beside_it_fails() {
        let tree = tree([
            ("crates/guard", "dependencies.rampart-diagnostic = {}"),
            ("crates/diagnostic", ""),
            ("crates/buddy", "dependencies.rampart-sim = {}"),
            ("crates/sim", ""),
        ]);
        assert_eq!(
            lines(&check(&tree)),
            [
                "crates/buddy/Cargo.toml: crates/buddy names crates/sim beside it: crates of one layer (parts) do not name each other",
                "crates/guard/Cargo.toml: crates/guard names crates/diagnostic beside it: crates of one layer (systems) do not name each other",
            ]
        );
    }

    #[test]
    fn no_way_to_write_a_dependency_hides_it() {
        for dependency in [
            "dependencies.rampart-rampart = '1'",
            "build-dependencies.rampart-rampart = {}",
            "target.'cfg(unix)'.dependencies.rampart-rampart = {}",
            "dependencies.face = { package = 'rampart-rampart' }",
        ] {
            let tree = tree([("crates/store", dependency), ("crates/rampart", "")]);
            assert_eq!(check(&tree).len(), 1, "{dependency}");
        }
        let renamed_by_the_workspace = Tree::from([
            ("Cargo.toml", "workspace.dependencies.face = { package = 'rampart-cli' }"),
            ("crates/rampart/Cargo.toml", "package.name = 'rampart-cli'"),
            ("crates/store/Cargo.toml", "package.name = 'rampart-store'\ndependencies.face.workspace = true"),
        ]);
        assert_eq!(check(&renamed_by_the_workspace).len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let tree = tree([("crates/store", "dev-dependencies.rampart-rampart = {}"), ("crates/rampart", "")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_folder_without_a_layer_fails() {
        let lines = lines(&check(&tree([("crates/extra", "")])));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("crates/extra/Cargo.toml: this crate has no layer"), "{lines:?}");
    }

    #[test]
    fn a_manifest_that_cannot_be_parsed_fails() {
        assert_eq!(check(&Tree::from([("crates/march/Cargo.toml", "[package")])).len(), 1);
    }
}
