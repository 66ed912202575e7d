//! Every crate that a rule names exists.

use std::collections::BTreeSet;

use super::linux_calls::MAY_CALL_LINUX;
use super::{Violation, layers, safety};
use crate::tree::Tree;

/// The folders in the lists of the other rules are crates.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let layers = layers::LAYERS.into_iter().flat_map(|(_, folders)| folders.iter().copied());
    let sideways = layers::SIDEWAYS.into_iter().flat_map(|(above, below)| [above, below]);
    let may = safety::MAY.into_iter().chain(MAY_CALL_LINUX).map(|(folder, _)| folder);
    absent(tree, layers.chain(sideways).chain(may))
}

fn absent<'a>(tree: &Tree, named: impl Iterator<Item = &'a str>) -> Vec<Violation> {
    let crates: BTreeSet<&str> = tree.crates().map(|(folder, _)| folder).collect();
    let absent: BTreeSet<&str> = named.filter(|folder| !crates.contains(folder)).collect();
    let what = "is named in a rule of xtask/src/tidy and is no crate: take it off";
    absent.into_iter().map(|folder| Violation::new(folder, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn a_folder_that_is_named_and_is_no_crate_fails_once() {
        let tree = Tree::from([("crates/memory/Cargo.toml", ""), ("crates/heap/README.md", "")]);
        assert_eq!(
            lines(&absent(&tree, ["crates/memory", "crates/heap", "crates/heap"].into_iter())),
            ["crates/heap: is named in a rule of xtask/src/tidy and is no crate: take it off"]
        );
    }

    #[test]
    fn each_list_is_looked_at() {
        let lines = lines(&check(&Tree::default()));
        for folder in ["xtask", "crates/sim", "crates/march", "crates/linux", "crates/memory"] {
            assert!(lines.iter().any(|line| line.starts_with(&format!("{folder}: "))), "{folder}: {lines:?}");
        }
    }
}
