//! Files that can be read in one sitting, build on any machine, and hold nothing unfinished.

use super::Violation;
use crate::tree::Tree;

/// A file longer than this holds more than one idea.
const LONGEST: usize = 700;

/// Written by a program or by lawyers: any length is allowed.
const ANY_LENGTH: [&str; 12] = [
    "Cargo.lock",
    "bench/heap/Cargo.lock",
    "docs/figures/heap/runs.csv",
    "docs/figures/heap/short/copying-runs.csv",
    "docs/figures/heap/short/runs.csv",
    "docs/figures/heap/twenty/runs.csv",
    "fuzz/Cargo.lock",
    "java/copying/Cargo.lock",
    "java/host/Cargo.lock",
    "tests/freestanding/Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

// The words are composed so that this file does not break its own rule.
/// Paths that exist on one machine only.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Signs that a Rust source is unfinished, or does not do what it seems to do.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("#[ign", "ore"), concat!("TO", "DO")];

/// No file is too long, names a path of one machine, or is unfinished.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        let length = text.lines().count();
        if length > LONGEST && !ANY_LENGTH.contains(&path) {
            violations.push(Violation::new(path, format!("{length} lines, more than {LONGEST}: split it by idea")));
        }
        let unfinished: &[&str] = if path.ends_with(".rs") { &UNFINISHED } else { &[] };
        for (number, line) in (1..).zip(text.lines()) {
            let place = format!("{path}:{number}");
            let machine = MACHINE.iter().filter(|word| line.contains(*word));
            violations.extend(machine.map(|word| Violation::new(&place, format!("{word} is a path of one machine"))));
            let unfinished = unfinished.iter().filter(|word| line.contains(*word));
            violations.extend(unfinished.map(|word| Violation::new(&place, format!("{word} is unfinished work"))));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    #[test]
    fn short_finished_files_pass() {
        let tree = Tree::from([
            ("crates/march/src/lib.rs", &"// a line\n".repeat(LONGEST)),
            ("Cargo.lock", &"\n".repeat(9 * LONGEST)),
            (
                "README.md",
                &format!("The words {} are forbidden in Rust; ~/.local and framework/ are fine.", UNFINISHED.join(" ")),
            ),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_file_that_is_too_long_fails() {
        let tree = Tree::from([("docs/long.md", "\n".repeat(LONGEST + 1))]);
        assert_eq!(lines(&check(&tree)), ["docs/long.md: 701 lines, more than 700: split it by idea"]);
    }

    #[test]
    fn a_path_of_one_machine_fails() {
        for word in MACHINE {
            let tree = Tree::from([("run.sh", format!("true\ncd {word}main"))]);
            assert_eq!(lines(&check(&tree)), [format!("run.sh:2: {word} is a path of one machine")]);
        }
    }

    #[test]
    fn unfinished_sources_fail() {
        for word in UNFINISHED {
            let tree = Tree::from([("src/lib.rs", format!("fn f() {{ {word} }}"))]);
            assert_eq!(lines(&check(&tree)), [format!("src/lib.rs:1: {word} is unfinished work")]);
        }
    }
}
