//! A name should say what is inside. These words say nothing, or only when a file was made.

use std::collections::BTreeSet;

use super::Violation;
use crate::tree::Tree;

const FORBIDDEN: [&str; 17] = [
    "backup", "bak", "common", "copy", "final", "helper", "helpers", "misc", "new", "old", "orig", "stuff", "temp",
    "tmp", "util", "utility", "utils",
];

/// No file or folder has a forbidden word in its name.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let files: BTreeSet<&str> = tree.files().map(|(path, _)| path).collect();
    let mut violations = Vec::new();
    for path in files.union(&tree.folders()) {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let words = name.split(|c: char| !c.is_alphanumeric());
        let forbidden = words.filter(|word| FORBIDDEN.contains(word));
        violations.extend(forbidden.map(|word| Violation::new(*path, format!("`{word}` does not say what is inside"))));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn names_that_say_what_is_inside_pass() {
        let tree = Tree::from([
            ("crates/march/src/renewal.rs", ""),
            ("docs/decisions/0001-templates.md", ""),
            ("crates/memory/src/folder.rs", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_forbidden_word_fails_wherever_it_stands_and_once() {
        let tree = Tree::from([
            ("crates/utils/Cargo.toml", ""),
            ("crates/utils/src/lib.rs", ""),
            ("crates/march/src/test_helpers.rs", ""),
            ("README.md.OLD", ""),
        ]);
        assert_eq!(
            lines(&check(&tree)),
            [
                "README.md.OLD: `old` does not say what is inside",
                "crates/march/src/test_helpers.rs: `helpers` does not say what is inside",
                "crates/utils: `utils` does not say what is inside",
            ]
        );
    }
}
