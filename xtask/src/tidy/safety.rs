//! `unsafe` stays where the design allows it. Clippy checks that each block says why it is sound.

use super::Violation;
use crate::tree::Tree;

/// Crates that may contain `unsafe`, and the reason.
pub const MAY: [(&str, &str); 10] = [
    ("crates/linux", "system calls, and memory that the kernel maps or moves"),
    ("crates/march", "the loops over memory under test"),
    ("crates/codes", "the loops over pages, by instructions that not every processor has"),
    ("crates/heap", "the words of its objects, at offsets that no check could afford to look at"),
    ("crates/heap-c", "the functions that C calls, with the pointers that it passes"),
    ("crates/preload", "the functions that it has in place of the C library's"),
    ("bench", "the loops that others are compared with"),
    ("bench/heap", "the objects of MMTk's heaps, which are addresses"),
    ("tests/redmpi", "calls of the agreement and the comparison of replicas, which are C"),
    ("tests/freestanding", "a program's start and end, without a C library"),
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// The root of every other crate's library and programs forbids `unsafe`.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let crates = tree.crates().map(|(folder, _)| folder).filter(|folder| !MAY.iter().any(|(may, _)| may == folder));
    let roots = crates.flat_map(|folder| tree.rust().filter(move |(path, _)| is_root(folder, path)));
    let bare = roots.filter(|(_, text)| !text.lines().any(|line| line == FORBID));
    bare.map(|(path, _)| Violation::new(path, format!("lacks {FORBID}"))).collect()
}

fn is_root(folder: &str, path: &str) -> bool {
    let Some(source) = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix("/src/")) else { return false };
    ["lib.rs", "main.rs"].contains(&source) || (source.starts_with("bin/") && source.matches('/').count() == 1)
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn crates_that_forbid_unsafe_or_may_hold_it_pass() {
        let tree = Tree::from([
            ("crates/march/Cargo.toml", ""),
            ("crates/march/src/lib.rs", "//! March."),
            ("crates/store/Cargo.toml", ""),
            ("crates/store/src/lib.rs", "//! Store.\n\n#![forbid(unsafe_code)]\n"),
            ("crates/store/src/schema.rs", "//! Only a module."),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_fails() {
        let tree = Tree::from([
            ("crates/store/Cargo.toml", ""),
            ("crates/store/src/lib.rs", "// #![forbid(unsafe_code)]"),
            ("crates/store/src/bin/dump.rs", ""),
            ("xtask/Cargo.toml", ""),
            ("xtask/src/main.rs", "#![deny(unsafe_code)]"),
        ]);
        let failed = ["crates/store/src/bin/dump.rs", "crates/store/src/lib.rs", "xtask/src/main.rs"];
        assert_eq!(lines(&check(&tree)), failed.map(|path| format!("{path}: lacks #![forbid(unsafe_code)]")));
    }
}
