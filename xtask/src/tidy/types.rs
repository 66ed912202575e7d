//! The name of a public type means one thing in the whole workspace.
//!
//! Variants per processor architecture count as one type, and every crate has its `Error`. Tests may name theirs
//! freely.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::modules::{Token, tokens};
use super::syntax::shipped_code;
use crate::tree::Tree;

const EVERYWHERE: &str = "Error";

const ARCHITECTURES: [&str; 4] = ["aarch64", "arm", "x86", "x86_64"];

/// No two public types of crates share a name.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in tree.rust().filter(|(path, _)| is_shipped(path)) {
        for (name, line) in public_types(text) {
            places.entry(name).or_default().insert(format!("{path}:{line}"));
        }
    }
    places.retain(|_, places| places.len() > 1);
    let again = places.iter().map(|(name, places)| {
        let others: Vec<&str> = places.iter().skip(1).map(String::as_str).collect();
        let what = format!("another type is called `{name}` too: {}; say which one this is", others.join(", "));
        Violation::new(places.first().expect("there are two"), what)
    });
    again.collect()
}

/// Whether a file is built into crates, and is no variant for one architecture.
fn is_shipped(path: &str) -> bool {
    let parts = || path.split('/');
    let is_test = |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
    let is_twin = |part: &str| ARCHITECTURES.contains(&part.trim_end_matches(".rs"));
    path.starts_with("crates/") && path.contains("/src/") && !parts().any(|part| is_test(part) || is_twin(part))
}

/// The types that a file makes public, at least in its crate, each with its line.
fn public_types(text: &str) -> Vec<(String, usize)> {
    let code = shipped_code(text);
    let lines: Vec<&str> = code.lines().collect();
    let tokens = tokens(&code);
    let mut types = Vec::new();
    for (at, kind) in tokens.iter().enumerate() {
        let is_kind = ["struct", "enum", "trait", "type", "union"].contains(&kind.word);
        let Some(name) = tokens.get(at + 1).filter(|_| is_kind && is_public(&tokens[..at])) else { continue };
        if name.word != EVERYWHERE && !is_for_one_architecture(&lines, kind.line) {
            types.push((name.word.to_owned(), kind.line));
        }
    }
    types
}

/// Whether `pub` or `pub(crate)` ends these tokens.
fn is_public(before: &[Token]) -> bool {
    let words: Vec<&str> = before.iter().rev().take(4).map(|token| token.word).collect();
    matches!(words[..], ["pub" | "unsafe", ..] | [")", "crate", "(", "pub"])
}

/// Whether an attribute right above a line selects an architecture.
fn is_for_one_architecture(lines: &[&str], line: usize) -> bool {
    let above = lines[..line - 1].iter().rev().map(|line| line.trim());
    above.take_while(|line| line.is_empty() || line.starts_with('#')).any(|line| line.contains("target_arch"))
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    /// Two files with a line each.
    fn check_both(first: (&str, &str), second: (&str, &str)) -> Vec<String> {
        lines(&check(&Tree::from([first, second])))
    }

    #[test]
    fn a_name_that_two_public_types_have_fails() {
        for line in [
            "pub enum Place {}",
            "pub(crate) struct Place;",
            "pub trait Place {}",
            "pub type Place = u8;",
            "pub union Place {}",
        ] {
            assert_eq!(
                check_both(("crates/a/src/lib.rs", "pub struct Place;"), ("crates/b/src/x/y.rs", &format!("\n{line}"))),
                [
                    "crates/a/src/lib.rs:1: another type is called `Place` too: crates/b/src/x/y.rs:2; say which one this is"
                ],
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_private_an_error_of_a_test_or_a_twin_passes() {
        for (path, line) in [
            ("crates/b/src/lib.rs", "struct Place;"),
            ("crates/b/src/lib.rs", "pub(super) struct Place;"),
            ("crates/b/src/lib.rs", "pub fn struct_of() -> Place {}"),
            ("crates/b/src/lib.rs", "// pub struct Place;"),
            ("crates/b/src/lib.rs", "#[cfg(test)] mod tests { pub struct Place; }"),
            ("crates/b/src/lib.rs", "#[cfg(target_arch = \"aarch64\")]\npub struct Place;"),
            ("crates/b/src/tests.rs", "pub struct Place;"),
            ("crates/b/src/loops/aarch64.rs", "pub struct Place;"),
            ("crates/b/src/loops/x86_64/mod.rs", "pub struct Place;"),
            ("tests/end_to_end/harness.rs", "pub struct Place;"),
        ] {
            assert_eq!(
                check_both(("crates/a/src/lib.rs", "pub struct Place;"), (path, line)),
                [""; 0],
                "{path}: {line}"
            );
        }
        let error = "pub enum Error {}";
        assert_eq!(check_both(("crates/a/src/error.rs", error), ("crates/b/src/error.rs", error)), [""; 0]);
    }
}
