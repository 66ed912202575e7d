//! ARCHITECTURE.md has the facts that a rule holds in the rule's own words: `cargo xtask tidy --write` writes them
//! there.
//!
//! A part stands between `<!-- tidy: NAME -->` and `<!-- tidy: end -->`, each on a line of its own.

use std::fmt::Write as _;

use super::Violation;
use super::layers::{LAYERS, PROOF, SIDEWAYS};
use super::linux_calls::MAY_CALL_LINUX;
use super::safety::MAY;
use crate::tree::Tree;

/// The document with the parts.
pub const DOCUMENT: &str = "ARCHITECTURE.md";

/// The name of a part, and the function that writes it.
type Part = (&'static str, fn() -> String);

const PARTS: [Part; 3] = [("layers", layers), ("unsafe", || reasons(&MAY)), ("linux", || reasons(&MAY_CALL_LINUX))];

const BEGIN: &str = "<!-- tidy: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- tidy: end -->";

/// Each part is in the document, with its rule's text.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.text(DOCUMENT) else { return Vec::new() };
    match written(text) {
        Ok(written) if written == text => Vec::new(),
        Ok(_) => vec![Violation::new(DOCUMENT, "differs from the rules: run `cargo xtask tidy --write`")],
        Err(what) => vec![Violation::new(DOCUMENT, what)],
    }
}

/// The document with each part from its rule; otherwise the problem with the marks.
pub fn written(text: &str) -> Result<String, String> {
    let mut written = String::new();
    let mut missing: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        writeln!(written, "{line}").expect("a string takes all");
        let Some(name) = mark(line) else { continue };
        let part =
            PARTS.iter().find(|(part, _)| *part == name).ok_or_else(|| format!("no rule writes a part `{name}`"))?;
        if !lines.any(|line| line == END) {
            return Err(format!("the part `{name}` has no end: {END}"));
        }
        missing.retain(|missing| *missing != name);
        writeln!(written, "{}{END}", part.1()).expect("a string takes all");
    }
    match missing.first() {
        Some(name) => Err(format!("lacks the part `{name}`: {BEGIN}{name}{CLOSE}, then {END}")),
        None => Ok(written),
    }
}

fn mark(line: &str) -> Option<&str> {
    line.strip_prefix(BEGIN)?.strip_suffix(CLOSE)
}

fn layers() -> String {
    let mut text = String::from("| layer | crates |\n|---|---|\n");
    for (layer, folders) in LAYERS {
        let folders: Vec<String> = folders.iter().map(|folder| format!("`{folder}/`")).collect();
        writeln!(text, "| {layer} | {} |", folders.join(", ")).expect("a string takes all");
    }
    let sideways: Vec<String> = SIDEWAYS.iter().map(|(from, to)| format!("`{from}/` may name `{to}/`")).collect();
    text + &format!("\nA crate of {PROOF} may name all; {}.\n", sideways.join(", "))
}

fn reasons(crates: &[(&str, &str)]) -> String {
    crates.iter().map(|(folder, why)| format!("- `{folder}/`: {why}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    /// A document with an empty part for each.
    fn empty() -> String {
        PARTS.iter().map(|(name, _)| format!("Before.\n{BEGIN}{name}{CLOSE}\n{END}\nAfter.\n")).collect()
    }

    fn check_text(text: &str) -> Vec<String> {
        lines(&check(&Tree::from([(DOCUMENT, text)])))
    }

    #[test]
    fn what_was_written_passes_and_is_written_the_same_again() {
        let once = written(&empty()).unwrap();
        assert!(once.contains("| words | `crates/memory/` |") && once.contains("- `crates/march/`: "), "{once}");
        assert_eq!(once.matches("Before.\n").count(), PARTS.len());
        assert_eq!(once.matches("After.\n").count(), PARTS.len());
        assert_eq!(check_text(&once), [""; 0]);
        assert_eq!(written(&once).unwrap(), once);
    }

    #[test]
    fn a_part_that_differs_from_its_rule_fails() {
        let changed = written(&empty()).unwrap().replace("crates/march/", "crates/store/");
        for text in [empty(), changed] {
            assert_eq!(check_text(&text), ["ARCHITECTURE.md: differs from the rules: run `cargo xtask tidy --write`"]);
        }
    }

    #[test]
    fn a_part_that_is_missing_has_no_end_or_has_no_rule_fails() {
        let lacks = empty().replace("<!-- tidy: unsafe -->\n<!-- tidy: end -->\n", "");
        assert_eq!(
            check_text(&lacks),
            ["ARCHITECTURE.md: lacks the part `unsafe`: <!-- tidy: unsafe -->, then <!-- tidy: end -->"]
        );
        let endless = format!("{}<!-- tidy: layers -->\n", empty());
        assert_eq!(check_text(&endless), ["ARCHITECTURE.md: the part `layers` has no end: <!-- tidy: end -->"]);
        let strange = format!("<!-- tidy: rumours -->\n{}", empty());
        assert_eq!(check_text(&strange), ["ARCHITECTURE.md: no rule writes a part `rumours`"]);
    }
}
