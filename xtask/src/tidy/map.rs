//! ARCHITECTURE.md is the map of the tree, and a map that is wrong is worse than none.

use std::collections::BTreeSet;

use super::{Violation, code_spans};
use crate::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// Every folder on the map (in backticks, with `/` at its end) is in the tree, and every crate is on the map.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.text(MAP) else { return vec![Violation::new(MAP, "is missing")] };
    let named: BTreeSet<&str> = text.lines().flat_map(code_spans).filter_map(|span| span.strip_suffix('/')).collect();
    let folders = tree.folders();
    let absent = named.difference(&folders).map(|folder| format!("names `{folder}/`, which is not in the tree"));
    let crates = tree.crates().map(|(folder, _)| folder).filter(|folder| !named.contains(folder));
    let unnamed = crates.map(|folder| format!("does not name `{folder}/`, which is a crate"));
    absent.chain(unnamed).map(|what| Violation::new(MAP, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn a_map_that_fits_the_tree_passes() {
        let tree = Tree::from([
            (MAP, "| `crates/memory/` | words |\n| `docs/` | `docs/report-schema.md` |\n```text\n  (a drawing)\n```\n"),
            ("crates/memory/Cargo.toml", ""),
            ("docs/report-schema.md", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_folder_that_is_only_on_the_map_and_a_crate_that_is_not_fail() {
        let tree = Tree::from([(MAP, "`kernel/` and crates/memory/"), ("crates/memory/Cargo.toml", "")]);
        assert_eq!(
            lines(&check(&tree)),
            [
                "ARCHITECTURE.md: names `kernel/`, which is not in the tree",
                "ARCHITECTURE.md: does not name `crates/memory/`, which is a crate",
            ]
        );
    }

    #[test]
    fn a_tree_without_a_map_fails() {
        assert_eq!(lines(&check(&Tree::default())), ["ARCHITECTURE.md: is missing"]);
    }
}
