//! Each row of SPECIFICATION.md names the proof of its promise.
//!
//! A row is `| promise | held by |`. The proof stands in backticks: the name of a test function, or `bench NAME`, `fuzz
//! NAME`, `qemu NAME`, `aarch64 NAME`, `bare`, `tidy`.

use std::collections::BTreeSet;

use super::{Violation, code_spans};
use crate::tree::Tree;

const PROMISES: &str = "SPECIFICATION.md";
const BENCHES: &str = "bench/src/main.rs";

/// Each promise names a proof, and every named proof exists.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.text(PROMISES) else { return vec![Violation::new(PROMISES, "is missing")] };
    let tests: BTreeSet<&str> = tree.rust().flat_map(|(_, text)| tests(text)).collect();
    let mut violations = Vec::new();
    for (number, proofs) in rows(text) {
        let place = format!("{PROMISES}:{number}");
        if code_spans(proofs).next().is_none() {
            violations.push(Violation::new(&place, "no test or bench holds this promise"));
        }
        let absent = code_spans(proofs).filter(|proof| !exists(tree, &tests, proof));
        violations.extend(absent.map(|proof| Violation::new(&place, format!("`{proof}` does not exist"))));
    }
    violations
}

/// The last cell of each row of each table, with its line, counted from 1; headings are no promises.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &&str| line.starts_with("|--") || line.starts_with("| --");
    (0..lines.len()).filter_map(move |i| {
        let heading = is_rule(&lines[i]) || lines.get(i + 1).is_some_and(is_rule);
        let cells = lines[i].strip_prefix('|')?.trim_end().strip_suffix('|')?;
        (!heading).then(|| (i + 1, cells.rsplit('|').next().unwrap_or(cells)))
    })
}

fn exists(tree: &Tree, tests: &BTreeSet<&str>, proof: &str) -> bool {
    match proof.split_once(' ') {
        Some(("bench", name)) => tree.text(BENCHES).is_some_and(|text| text.contains(&format!("\"{name}\""))),
        Some(("fuzz", name)) => tree.text(&format!("fuzz/targets/{name}.rs")).is_some(),
        Some(("qemu" | "aarch64", name)) => tree.text(&format!("tests/qemu/scenarios/{name}.sh")).is_some(),
        Some(_) => false,
        None => ["bare", "tidy"].contains(&proof) || tests.contains(proof.rsplit("::").next().unwrap_or(proof)),
    }
}

/// The functions of a Rust source that its test runner runs.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    let mut marked = false;
    text.lines().map(str::trim).filter_map(move |line| {
        marked |= line == "#[test]";
        let name = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()).filter(|_| marked);
        marked &= line.starts_with("#[") || line.starts_with("//");
        name
    })
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const HEADING: &str = "| promise | held by |\n|---|---|\n";

    fn tree(row: &str) -> Tree {
        Tree::from([
            (PROMISES, format!("# Promises\n\n{HEADING}{row}\n").as_str()),
            ("crates/a/src/lib.rs", "fn not_a_test() {}\n#[test]\n/// Says why.\nfn it_holds() {}\nfn beside() {}\n"),
            (BENCHES, "match name { \"march\" => march::run() }"),
            ("fuzz/targets/size.rs", ""),
            ("tests/qemu/scenarios/low_memory.sh", ""),
        ])
    }

    #[test]
    fn promises_with_proofs_pass() {
        for row in [
            "| It holds. | `it_holds` |",
            "| It holds, with `code`. | `a::tests::it_holds`, `bench march` |",
            "| Robust. | `fuzz size`, `qemu low_memory`; `tidy`, `bare` |",
        ] {
            assert_eq!(check(&tree(row)), [], "{row}");
        }
    }

    #[test]
    fn a_promise_without_a_proof_fails() {
        let row = "| A promise, with `code`. | some day |";
        assert_eq!(lines(&check(&tree(row))), ["SPECIFICATION.md:5: no test or bench holds this promise"]);
    }

    #[test]
    fn a_proof_that_does_not_exist_fails() {
        for proof in ["absent", "not_a_test", "beside", "bench absent", "fuzz absent", "qemu absent", "rumour size"] {
            let row = format!("| A promise. | `it_holds`, `{proof}` |");
            assert_eq!(lines(&check(&tree(&row))), [format!("SPECIFICATION.md:5: `{proof}` does not exist")]);
        }
    }

    #[test]
    fn a_tree_without_promises_fails() {
        assert_eq!(lines(&check(&Tree::default())), ["SPECIFICATION.md: is missing"]);
    }
}
