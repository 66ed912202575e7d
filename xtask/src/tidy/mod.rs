//! The tree's own rules, each a pure function from the tree to its violations.
//!
//! `rustfmt` and `clippy` already hold the width of code, the documentation of public items, and a SAFETY comment at
//! each unsafe block; no rule here repeats these.

mod circles;
mod citations;
mod layers;
mod linux_calls;
mod listed;
mod map;
mod modules;
mod names;
mod native;
mod parts;
mod promises;
mod rooms;
mod safety;
mod sources;
mod syntax;
mod types;
mod width;

use std::fmt;
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::tree::Tree;

/// One violation of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    what: String,
}

impl Violation {
    fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// Prints every violation in the tree below `root`, and fails if there is one.
pub fn run(root: &Path) -> Result<(), Error> {
    let violations = check(&Tree::read(root)?);
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() { Ok(()) } else { Err(Error::Untidy(violations.len())) }
}

/// Writes the parts of documents that the rules own, and prints which documents changed.
pub fn write(root: &Path) -> Result<(), Error> {
    let path = root.join(parts::DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|cause| Error::Read { path: path.clone(), cause })?;
    let written = parts::written(&text).map_err(|what| Error::Marks { path: path.clone(), what })?;
    if written != text {
        println!("{} changed", parts::DOCUMENT);
        fs::write(&path, written).map_err(|cause| Error::Write { path, cause })?;
    }
    Ok(())
}

fn check(tree: &Tree) -> Vec<Violation> {
    let rules = [
        layers::check,
        listed::check,
        rooms::check,
        circles::check,
        linux_calls::check,
        safety::check,
        names::check,
        types::check,
        citations::check,
        width::check,
        map::check,
        parts::check,
        sources::check,
        native::check,
        promises::check,
    ];
    let mut violations: Vec<_> = rules.into_iter().flat_map(|rule| rule(tree)).collect();
    violations.sort();
    violations
}

/// The text between backticks in a line of Markdown.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The violations as they are printed, for the rules' tests.
#[cfg(test)]
fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(Violation::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_asked_and_each_violation_is_one_line() {
        let tree =
            Tree::from([("crates/extra/Cargo.toml", "[package]\nname = 'extra'"), ("crates/extra/src/lib.rs", "")]);
        let lines = lines(&check(&tree));
        assert!(lines.iter().all(|line| line.lines().count() == 1 && line.contains(": ")), "{lines:#?}");
        let paths: Vec<_> = lines.iter().map(|line| line.split_once(':').unwrap().0).collect();
        assert!(paths.is_sorted(), "{lines:#?}");
        for path in ["ARCHITECTURE.md", "SPECIFICATION.md", "crates/extra/Cargo.toml", "crates/extra/src/lib.rs"] {
            assert!(paths.contains(&path), "{path}: {lines:#?}");
        }
    }

    #[test]
    fn code_spans_are_what_stands_between_backticks() {
        assert_eq!(code_spans("`a` and `b/`, c").collect::<Vec<_>>(), ["a", "b/"]);
        assert_eq!(code_spans("none").count(), 0);
    }
}
